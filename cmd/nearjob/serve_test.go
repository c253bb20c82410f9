package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// buffer is a bytes.Buffer for two goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// service is a running demo or serve.
type service struct {
	url  string
	stop func() (code int)
	out  *buffer
	log  *buffer
}

var address = regexp.MustCompile(`msg=serving address=(\S+)`)

// start runs a command that serves, on a free port, and waits until it does.
func start(t *testing.T, args ...string) *service {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &service{out: &buffer{}, log: &buffer{}}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append(args, "--addr", "127.0.0.1:0"), streams{strings.NewReader(""), s.out, s.log})
	}()
	s.stop = sync.OnceValue(func() int {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { s.stop() })
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if m := address.FindStringSubmatch(s.log.String()); m != nil {
			s.url = "http://" + m[1]
			return s
		}
		select {
		case code := <-ended:
			t.Fatalf("ended with exit code %d: %s", code, s.log)
		default:
		}
	}
	t.Fatalf("does not serve: %s", s.log)
	return nil
}

type answer struct {
	Jobs []struct {
		ID        string   `json:"id"`
		Title     string   `json:"title"`
		DistanceM *float64 `json:"distance_m"`
	} `json:"jobs"`
	NextCursor string          `json:"next_cursor"`
	Explain    json.RawMessage `json:"explain"`
	Status     any             `json:"status"`
}

func (s *service) get(t *testing.T, path string) (int, answer) {
	t.Helper()
	resp, err := http.Get(s.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var a answer
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return resp.StatusCode, a
}

var curl = regexp.MustCompile(`curl '(http[^']*)'`)

// The demo fills its store, the lines it prints work, and a second start keeps
// the data.
func TestDemo(t *testing.T) {
	db := tempDB(t)
	first := start(t, "demo", "--rows", "2000", "--db", db)
	lines := curl.FindAllStringSubmatch(first.out.String(), -1)
	if len(lines) != 3 {
		t.Fatalf("%d curl lines:\n%s", len(lines), first.out)
	}
	var ids string
	for i, line := range lines {
		code, a := first.get(t, strings.TrimPrefix(line[1], first.url))
		if code != http.StatusOK || len(a.Jobs) == 0 {
			t.Errorf("%s: status %d, %d jobs", line[1], code, len(a.Jobs))
		}
		if i == 0 {
			ids = fmt.Sprint(a.Jobs)
		}
		if explained := strings.Contains(line[1], "explain=true"); explained != (len(a.Explain) > 0) {
			t.Errorf("%s: explain is %q", line[1], a.Explain)
		}
	}
	if code := first.stop(); code != 0 {
		t.Errorf("exit code %d: %s", code, first.log)
	}

	second := start(t, "demo", "--rows", "3000", "--db", db)
	if !strings.Contains(second.out.String(), "Kept the 2000 jobs") {
		t.Errorf("the second start says: %s", second.out)
	}
	path := strings.TrimPrefix(lines[0][1], first.url)
	if _, a := second.get(t, path); len(a.Jobs) == 0 || len(fmt.Sprint(a.Jobs)) != len(ids) {
		t.Errorf("the second start has other data: %v, %s", a.Jobs, ids)
	}
}

func TestTakenPortIsOneLine(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, command := range []string{"demo", "serve"} {
		file := filepath.Join(t.TempDir(), "none.db")
		code, out, errs := call(t, "", command, "--addr", l.Addr().String(), "--db", "sqlite:"+file)
		if code != 1 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "--addr") {
			t.Errorf("%s: exit code %d, %q, %q", command, code, out, errs)
		}
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s has made a database all the same", command)
		}
	}
}

// serve does not explain unless told to.
func TestServe(t *testing.T) {
	db := tempDB(t)
	s := start(t, "serve", "--db", db)
	if code, a := s.get(t, "/readyz"); code != http.StatusOK || a.Status != "ok" {
		t.Errorf("status %d, %+v", code, a)
	}
	if code, _ := s.get(t, "/v1/jobs/nearby?lat=0&lng=0&explain=true"); code != http.StatusForbidden {
		t.Errorf("explain=true has status %d", code)
	}
	open := start(t, "serve", "--allow-explain", "--db", db)
	if code, a := open.get(t, "/v1/jobs/nearby?lat=0&lng=0&explain=true"); code != http.StatusOK || len(a.Explain) == 0 {
		t.Errorf("with --allow-explain: status %d, %s", code, a.Explain)
	}
}

// The 165 postings that share one point in New York come page by page, each once.
func TestRealPostings(t *testing.T) {
	const file = "../../../shared/data/code4lib_jobs.geojson"
	if _, err := os.Stat(file); err != nil {
		t.Skipf("SKIPPED: the real postings are not here: %v", err)
	}
	db := tempDB(t)
	if out := must(t, "", "import", file, "--db", db); !strings.Contains(out, "2585 jobs added, 0 updated, 0 rows left out") {
		t.Fatal(out)
	}
	s := start(t, "serve", "--db", db)
	for _, strategy := range []string{"fullscan", "bbox", "spatial", "geohash", "h3", "s2"} {
		seen := map[string]bool{}
		pages := 0
		for cursor := ""; ; pages++ {
			path := "/v1/jobs/nearby?lat=40.7142&lng=-74.0064&radius_m=0&limit=20&strategy=" + strategy
			if cursor != "" {
				path += "&cursor=" + cursor
			}
			code, a := s.get(t, path)
			if code != http.StatusOK {
				t.Fatalf("%s: status %d", path, code)
			}
			for _, j := range a.Jobs {
				if seen[j.ID] || *j.DistanceM != 0 {
					t.Errorf("%s: job %s is repeated or %v m away", strategy, j.ID, *j.DistanceM)
				}
				seen[j.ID] = true
			}
			if cursor = a.NextCursor; cursor == "" {
				break
			}
		}
		if len(seen) != 165 || pages != 8 {
			t.Errorf("%s: %d jobs on %d pages, want 165 on 9", strategy, len(seen), pages+1)
		}
	}
}
