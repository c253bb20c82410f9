package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// executable writes a script into a folder of its own and returns its path.
func executable(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBrowser(t *testing.T) {
	named := executable(t, "mine", "")
	onPath := executable(t, "google-chrome", "")
	t.Run("named", func(t *testing.T) {
		t.Setenv(envChrome, named)
		t.Setenv("PATH", filepath.Dir(onPath))
		if got, err := browser(t.TempDir(), t.Output()); err != nil || got != named {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("named but not there", func(t *testing.T) {
		t.Setenv(envChrome, named+"-not")
		if got, err := browser(t.TempDir(), t.Output()); err == nil {
			t.Errorf("got %q", got)
		}
	})
	t.Run("on the path", func(t *testing.T) {
		t.Setenv(envChrome, "")
		t.Setenv("PATH", filepath.Dir(onPath))
		if got, err := browser(t.TempDir(), t.Output()); err != nil || got != onPath {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("nothing at all", func(t *testing.T) {
		t.Setenv(envChrome, "")
		t.Setenv(envImage, "an/image")
		t.Setenv("PATH", t.TempDir())
		if got, err := browser(t.TempDir(), t.Output()); err == nil {
			t.Errorf("got %q", got)
		}
	})
}

// TestContainer looks at what the script asks Docker for: a stand-in for Docker prints
// its arguments.
func TestContainer(t *testing.T) {
	docker := executable(t, "docker", `for a in "$@"; do printf '<%s>' "$a"; done`)
	t.Setenv(envChrome, "")
	t.Setenv(envImage, "an/image:it's")
	path := os.Getenv("PATH")
	t.Setenv("PATH", filepath.Dir(docker)) // no browser here
	script, err := browser(t.TempDir(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(script, "--headless", "--user-data-dir=/tmp/a b")
	cmd.Env = append(os.Environ(), "PATH="+path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"<run><--rm>", "<--network><host>", "<an/image:it's>", "<chrome><--headless><--user-data-dir=/tmp/a b>"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s is missing in %s", want, out)
		}
	}
}

func TestRun(t *testing.T) {
	t.Setenv(envChrome, executable(t, "mine", ""))
	var stderr bytes.Buffer
	if code := run([]string{"--", "sh", "-c", `test "$NEARJOB_REQUIRE_CHROME" = 1 && test -x "$NEARJOB_CHROME" && exit 7`}, &stderr); code != 7 {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
	if code := run([]string{"/no/such/command"}, &stderr); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if code := run(nil, &stderr); code != 2 {
		t.Errorf("exit code %d", code)
	}
	t.Setenv(envChrome, "/no/such/browser")
	if code := run([]string{"true"}, &stderr); code != 1 || !strings.Contains(stderr.String(), "no browser") {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
}
