package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/testdata/testdb"
)

// call runs a command line as main does.
func call(t *testing.T, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, streams{strings.NewReader(stdin), &o, &e})
	return code, o.String(), e.String()
}

// must runs a command line that has to succeed, and returns what it printed.
func must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	code, out, errs := call(t, stdin, args...)
	if code != 0 {
		t.Fatalf("nearjob %s: exit code %d: %s", strings.Join(args, " "), code, errs)
	}
	return out
}

func tempDB(t *testing.T) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "test.db")
}

// Every command shows an example, and every example parses.
func TestHelpShowsAnExample(t *testing.T) {
	for _, command := range []string{"demo", "serve", "import", "generate", "migrate", "doctor", "version", "plans", "plans diff", "plans experiment", "token", "outbox list", "outbox replay"} {
		out := must(t, "", append(strings.Fields(command), "--help")...)
		if !strings.Contains(out, "    nearjob "+command) {
			t.Errorf("nearjob %s --help has no example:\n%s", command, out)
		}
	}
}

func TestExitCodes(t *testing.T) {
	secret := "mysql://me:hunter2@127.0.0.1:1/nearjob"
	for _, c := range []struct {
		code int
		args []string
		says string
	}{
		{0, nil, ""},
		{0, []string{"version"}, ""},
		{2, []string{"fly"}, "unexpected argument fly"},
		{2, []string{"import"}, `expected "<file> ..."`},
		{2, []string{"generate", "--center", "91,0"}, "lat is 91"},
		{2, []string{"generate", "--center", "Seoul"}, "want LAT,LNG"},
		{2, []string{"generate", "--shape", "round"}, "--shape must be one of"},
		{2, []string{"generate", "--rows", "0"}, "--rows: 0 is not 1 or more"},
		{2, []string{"doctor", "--db", "postgres://x"}, "want sqlite:FILE or mysql://"},
		{2, []string{"doctor", "--db", "sqlite:x", "--db-conns", "0"}, "--db-conns: 0"},
		{1, []string{"import", filepath.Join(t.TempDir(), "none.csv"), "--db", tempDB(t)}, "no such file"},
		{1, []string{"migrate", "--db", secret}, "127.0.0.1:1"},
	} {
		code, _, errs := call(t, "", c.args...)
		if code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("nearjob %s: exit code %d, %q; want %d and %q", strings.Join(c.args, " "), code, errs, c.code, c.says)
		}
		if c.code != 0 && strings.Count(errs, "\n") != 1 {
			t.Errorf("nearjob %s: not one line: %q", strings.Join(c.args, " "), errs)
		}
		if strings.Contains(errs, "hunter2") {
			t.Errorf("nearjob %s shows the password: %q", strings.Join(c.args, " "), errs)
		}
	}
}

func TestFlagsComeBeforeTheEnvironment(t *testing.T) {
	t.Setenv("NEARJOB_DB", tempDB(t))
	must(t, "", "migrate")
	must(t, "", "generate", "--rows", "10")
	if out := must(t, "", "doctor"); !strings.Contains(out, "it holds 10 jobs") {
		t.Errorf("the variable was not used: %s", out)
	}
	code, _, errs := call(t, "", "doctor", "--db", tempDB(t))
	if code != 1 || !strings.Contains(errs, "nearjob migrate") {
		t.Errorf("the flag was not used: exit code %d, %q", code, errs)
	}
}

// What generate writes, import reads: the same jobs, and none twice.
func TestGenerateAndImport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.csv")
	must(t, "", "generate", "--rows", "500", "--shape", "dense", "--seed", "7", "--out", file)
	if piped := must(t, "", "generate", "--rows", "500", "--shape", "dense", "--seed", "7", "--out", "-"); true {
		if written, err := os.ReadFile(file); err != nil || piped != string(written) {
			t.Errorf("standard output differs from the file: %v", err)
		}
	}
	db := tempDB(t)
	if out := must(t, "", "import", file, "--db", db); !strings.Contains(out, "500 jobs added, 0 updated") {
		t.Error(out)
	}
	if out := must(t, "", "import", file, "--db", db); !strings.Contains(out, "0 jobs added, 500 updated") {
		t.Error(out)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out := must(t, string(content), "import", "-", "--source", "jobs", "--db", db); !strings.Contains(out, "0 jobs added, 500 updated") {
		t.Error(out)
	}
	if out := must(t, "", "doctor", "--db", db); strings.Count(out, "ok ") != 4 {
		t.Error(out)
	}
}

func TestImportWritesRejects(t *testing.T) {
	rejects := filepath.Join(t.TempDir(), "rejects.csv")
	out := must(t, "title,lat,lng\nGood,1,2\nBad,91,2\nNowhere,,\n", "import", "-", "--rejects", rejects, "--db", tempDB(t))
	if !strings.Contains(out, "1 jobs added") || !strings.Contains(out, "2 rows left out") {
		t.Error(out)
	}
	got, err := os.ReadFile(rejects)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"-,3,out of range,", "-,4,missing coordinates,"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the rejects lack %q:\n%s", want, got)
		}
	}
}

func TestCancelledImportSaysHowToGoOn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	code := run(ctx, []string{"import", "-", "--db", tempDB(t)}, streams{strings.NewReader("title,lat,lng\nA,1,2\n"), &out, &errs})
	if code != 1 || !strings.Contains(errs.String(), "canceled") {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
}

// The tests choose every setting themselves, but for the server that testdb uses.
func TestMain(m *testing.M) {
	beMain()
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "NEARJOB_") && name != testdb.EnvDSN && name != testdb.EnvRequire {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}
