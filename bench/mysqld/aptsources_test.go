package mysqld

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

func TestReadAptSources(t *testing.T) {
	tests := []struct {
		dir          string
		want         []aptSource
		wantWarnings []string // substrings, in order
		mirrors      []string
		notUsable    []string // substrings of the warnings about mirrors
	}{
		{
			dir: "testdata/apt-list",
			want: []aptSource{
				{"http://mirror.example/debian/", "bookworm", []string{"main", "contrib"}},
				{"http://mirror.example/debian", "bookworm-updates", []string{"main"}},
				{"http://mirror.example/debian-security", "bookworm-security", []string{"main"}},
				{"https://second.example/debian", "stable", []string{"main"}},
				{"https://tool.example/linux/debian", "bookworm", []string{"stable"}},
				{"http://flat.example/repo", "./", []string{}},
				{"tor+http://onion.example/debian", "bookworm", []string{"main"}},
				{"http://mirror.example/debian", "bookworm", []string{"non-free", "main"}},
			},
			wantWarnings: []string{"sources.list: line 7", "sources.list: line 8"},
			mirrors:      []string{"http://mirror.example/debian", "https://second.example/debian"},
			notUsable:    []string{"tor+http://onion.example/debian"},
		},
		{
			dir: "testdata/apt-deb822",
			want: []aptSource{
				{"http://mirror.example/debian", "bookworm", []string{"main", "contrib"}},
				{"http://mirror.example/debian", "bookworm-updates", []string{"main", "contrib"}},
				{"http://second.example/debian/", "bookworm", []string{"main", "contrib"}},
				{"http://second.example/debian/", "bookworm-updates", []string{"main", "contrib"}},
				{"mirror+file:/etc/apt/mirrors/debian.list", "sid", []string{"main"}},
				{"https://packages.example/debian", "nodistro", []string{"main"}},
			},
			wantWarnings: []string{"debian.sources: line 40", "debian.sources: stanza at line 38: URIs or Suites is missing"},
			mirrors:      []string{"http://mirror.example/debian", "http://second.example/debian", "https://listed.example/debian"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.dir, func(t *testing.T) {
			fsys := os.DirFS(tt.dir)
			got, warnings := readAptSources(fsys)
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("sources:\n got %q\nwant %q", got, tt.want)
			}
			checkWarnings(t, warnings, tt.wantWarnings)
			mirrors, warnings := debianMirrors(fsys, got, "bookworm")
			if !reflect.DeepEqual(mirrors, tt.mirrors) {
				t.Errorf("mirrors:\n got %q\nwant %q", mirrors, tt.mirrors)
			}
			checkWarnings(t, warnings, tt.notUsable)
		})
	}
}

func checkWarnings(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("got warnings %q, want %d of them", got, len(want))
		return
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("warning %d: got %q, want it to hold %q", i, got[i], want[i])
		}
	}
}

func TestReadAptSourcesWithoutAny(t *testing.T) {
	got, warnings := readAptSources(os.DirFS(t.TempDir()))
	if len(got) > 0 || len(warnings) > 0 {
		t.Errorf("got %q and warnings %q, want nothing", got, warnings)
	}
}

func TestDebianMirrorsHidesPasswords(t *testing.T) {
	const secret = "s3cret"
	mirrors, warnings := debianMirrors(os.DirFS(t.TempDir()), []aptSource{
		{"http://user:" + secret + "@mirror.example/debian", "bookworm", []string{"main"}},
		{"ssh://user:" + secret + "@mirror.example/debian", "bookworm", []string{"main"}},
		{"http://user:" + secret + "@mirror.example:port/debian", "bookworm", []string{"main"}},
	}, "bookworm")
	if len(mirrors) != 1 || len(warnings) != 2 {
		t.Errorf("got %d mirrors and %d warnings, want 1 and 2", len(mirrors), len(warnings))
	}
	if s := strings.Join(warnings, "\n"); strings.Contains(s, secret) {
		t.Error("a warning shows the password")
	}
}

func FuzzParseAptSources(f *testing.F) {
	// go test ./bench/mysqld -fuzz FuzzParseAptSources -fuzztime 30s
	for _, name := range []string{
		"testdata/apt-list/etc/apt/sources.list",
		"testdata/apt-list/etc/apt/sources.list.d/tool.list",
		"testdata/apt-deb822/etc/apt/sources.list.d/debian.sources",
	} {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, parse := range []func([]byte) ([]aptSource, []string){parseAptList, parseAptDeb822} {
			sources, _ := parse(data)
			for _, s := range sources {
				if s.URI == "" || s.Suite == "" {
					t.Errorf("a source without address or suite: %q", s)
				}
			}
			debianMirrors(fstest.MapFS{}, sources, "bookworm")
		}
	})
}
