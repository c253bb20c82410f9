package mysqld

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func TestParseProxy(t *testing.T) {
	const key = "Acquire::http::Proxy"
	tests := []struct {
		name, dump string
		want       []string
	}{
		{"none", "", nil},
		{"general", key + "=http://proxy.example:3128\n", []string{"http_proxy=http://proxy.example:3128"}},
		{"for the host", key + "=http://proxy.example:3128\n" + key + "::mirror.example=http://near.example:1\n", []string{"http_proxy=http://near.example:1"}},
		{"for another host", key + "::other.example=http://near.example:1\n", nil},
		{"direct", key + "=http://proxy.example:3128\n" + key + "::mirror.example=DIRECT\n", []string{"http_proxy="}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := parseProxy([]byte(tt.dump), key, "http", "mirror.example"); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestMountsBelow(t *testing.T) {
	const mountinfo = `22 1 254:0 / / rw - ext4 /dev/root rw
30 22 0:5 / /tmp/x/root/proc rw - proc proc rw
31 30 0:6 / /tmp/x/root/with\040space rw - sysfs sysfs rw
32 22 0:7 / /tmp/x rw - tmpfs tmpfs rw
33 22 0:8 / /tmp/xy/proc rw - proc proc rw
`
	want := []string{"/tmp/x/root/proc", "/tmp/x/root/with space"}
	if got := mountsBelow([]byte(mountinfo), "/tmp/x"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRemoveTree(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := removeTree(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestOSRelease(t *testing.T) {
	got := osRelease(fstest.MapFS{"etc/os-release": {Data: []byte("ID=debian\nVERSION_CODENAME=\"bookworm\"\n# x\n")}})
	if got["ID"] != "debian" || got["VERSION_CODENAME"] != "bookworm" {
		t.Errorf("got %q", got)
	}
	if got := osRelease(fstest.MapFS{}); len(got) != 0 {
		t.Errorf("without the file: got %q", got)
	}
}

func TestRunShowsTheEndOfTheOutput(t *testing.T) {
	_, err := run(t.Context(), []string{"WORD=because"}, "sh", "-c", "echo early; for i in 1 2 3 4 5 6 7 8 9; do echo; done; echo $WORD; exit 7")
	if err == nil {
		t.Fatal("got no error")
	}
	if s := err.Error(); !strings.Contains(s, "exit status 7") || !strings.Contains(s, "because") || strings.Contains(s, "early") {
		t.Errorf("got %q", s)
	}
}

// TestRunEndsItsDescendants would take a minute if the sleep survived the
// shell, because it holds the output open.
func TestRunEndsItsDescendants(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := run(ctx, nil, "sh", "-c", "sleep 60 & wait"); err == nil {
		t.Error("got no error")
	}
	if took := time.Since(began); took > killAfter/2 {
		t.Errorf("took %v", took)
	}
}
