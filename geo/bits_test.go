package geo

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/distance.golden")

const goldenFile = "testdata/distance.golden"

// TestDistanceGolden holds every machine and every compiler setting to the bits
// in the golden file, all numbers in it being float64 bits in hexadecimal.
//
//	go test -run '^TestDistanceGolden$' ./geo -update
func TestDistanceGolden(t *testing.T) {
	if *update {
		var b bytes.Buffer
		b.WriteString("# lat lng lat lng distance: float64 bits; made by go test -run TestDistanceGolden ./geo -update\n")
		write := func(p, q LatLng) {
			for _, x := range []float64{p.Lat, p.Lng, q.Lat, q.Lng} {
				fmt.Fprintf(&b, "%016x ", math.Float64bits(x))
			}
			fmt.Fprintf(&b, "%016x\n", math.Float64bits(p.Distance(q)))
		}
		for _, tt := range accuracyPairs {
			write(tt.p, tt.q)
		}
		pairs(5, 480, write)
		if err := os.WriteFile(goldenFile, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, line := 0, 0
	for s := bufio.NewScanner(f); s.Scan(); {
		line++
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		fields := strings.Fields(s.Text())
		if len(fields) != 5 {
			t.Fatalf("%s:%d: %d fields, want 5", goldenFile, line, len(fields))
		}
		var x [5]float64
		for i, field := range fields {
			bits, err := strconv.ParseUint(field, 16, 64)
			if err != nil {
				t.Fatalf("%s:%d: %v", goldenFile, line, err)
			}
			x[i] = math.Float64frombits(bits)
		}
		p, q := LatLng{x[0], x[1]}, LatLng{x[2], x[3]}
		if d := p.Distance(q); math.Float64bits(d) != math.Float64bits(x[4]) {
			t.Errorf("%s:%d: %v to %v = %v (%x), want %v (%x)", goldenFile, line, p, q, d, math.Float64bits(d), x[4], math.Float64bits(x[4]))
		}
		n++
	}
	if n < 400 {
		t.Errorf("%s has %d pairs", goldenFile, n)
	}
}

//go:noinline
func unprotected(x, y, z float64) float64 { return x*y + z }

// fuses reports whether this very build fuses an unprotected x*y+z: the product
// is 1 - 2^-104, which rounds to 1.
func fuses() bool { return unprotected(1+0x1p-52, 1-0x1p-52, -1) != 0 }

const expectFused = "NEARJOB_GEO_TEST_EXPECT_FUSED"

// TestFusing is the control of TestDistanceGoldenFused, which runs it too.
func TestFusing(t *testing.T) {
	t.Logf("unprotected products are fused: %v", fuses())
	if os.Getenv(expectFused) != "" && !fuses() {
		t.Error("this build does not fuse x*y + z, so the golden test proves nothing")
	}
}

// TestDistanceGoldenFused runs the golden test in a build in which the compiler
// does fuse what it may, as TestFusing proves from inside it.
func TestDistanceGoldenFused(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a test binary")
	}
	if fuses() {
		t.Skip("this build fuses already: TestDistanceGolden has shown it")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("only amd64 has levels without fused instructions")
	}
	cmd := exec.Command(goTool(t), "test", "-count=1", "-v", "-run", "^(TestFusing|TestDistanceGolden)$", ".")
	cmd.Env = append(os.Environ(), "GOAMD64=v3", expectFused+"=1")
	out, err := cmd.CombinedOutput()
	if bytes.Contains(out, []byte("can only be run on AMD64 processors")) {
		t.Skip("this CPU is not of level v3")
	}
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestFusing")) || !bytes.Contains(out, []byte("--- PASS: TestDistanceGolden")) {
		t.Errorf("%v: %v\n%s", cmd.Args, err, out)
	}
}

func goTool(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command")
	}
	return path
}

// fused matches a fused multiply-add in the compiler's assembly listing: VFMADD231SD
// (amd64), FMADDD, FMSUBD, FNMSUBD, FNMADDD (arm64, riscv64, loong64), FMADD,
// FMSUB, FNMADD, FNMSUB (ppc64le), FMADD, WFMADB (s390x). The first group is
// the source file of the instruction.
var (
	fused       = regexp.MustCompile(`\(\S*?([^/\s]+\.go):\d+\)\s+(V?FN?M(?:ADD|SUB)[0-9A-Z]*|WFM[AS]DB)\b`)
	instruction = regexp.MustCompile(`\(\S*?([^/\s]+\.go):\d+\)\s+[A-Z]`)
)

// TestNoFusedInstructions compiles the package for machines with fused
// multiply-adds and reads the listing: none may come from the files on the path
// of a distance. By the source file, so inlining hides nothing. A function
// with an unprotected product in the same build shows that one would be seen.
func TestNoFusedInstructions(t *testing.T) {
	if testing.Short() {
		t.Skip("cross-compiles")
	}
	goCmd := goTool(t)
	dir := t.TempDir()
	for _, name := range []string{"trig.go", "distance.go"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"go.mod":     "module example.com/geo\n\ngo 1.26\n",
		"control.go": "package geo\n\nfunc Unprotected(x, y, z float64) float64 { return x*y + z }\n",
		// Instead of latlng.go, whose imports take a minute to cross-compile.
		"latlng.go": "package geo\n\nimport \"math\"\n\ntype LatLng struct{ Lat, Lng float64 }\n\n" +
			"const EarthRadius = 6371008.7714\nconst MaxDistance = math.Pi * EarthRadius\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, env := range [][]string{
		{"GOARCH=amd64", "GOAMD64=v3"}, {"GOARCH=arm64"}, {"GOARCH=ppc64le"}, {"GOARCH=riscv64"}, {"GOARCH=s390x"},
	} {
		t.Run(strings.Join(env, " "), func(t *testing.T) {
			cmd := exec.Command(goCmd, "build", "-gcflags=-S", ".")
			cmd.Dir = dir
			cmd.Env = append(append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off"), env...)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
			}
			lines, control := map[string]int{}, false
			for line := range strings.Lines(string(out)) {
				if m := instruction.FindStringSubmatch(line); m != nil {
					lines[m[1]]++
				}
				switch m := fused.FindStringSubmatch(line); {
				case m == nil:
				case m[1] == "control.go":
					control = true
				default:
					t.Errorf("fused instruction: %s", line)
				}
			}
			if !control {
				t.Error("the unprotected control is not fused: the search finds nothing")
			}
			if lines["trig.go"] < 100 || lines["distance.go"] < 50 {
				t.Errorf("too few instructions by file, so the search missed them: %v", lines)
			}
		})
	}
}
