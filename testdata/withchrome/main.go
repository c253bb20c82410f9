// Command withchrome runs a command with a browser for tests:
//
//	go run ./testdata/withchrome -- go test ./bench/report
//
// The command gets NEARJOB_CHROME, the path of a Chromium or Google Chrome, and
// NEARJOB_REQUIRE_CHROME=1, so that no test is skipped for want of one. The browser is
// the first of these that can be had: what NEARJOB_CHROME names; one on the path;
// Debian's chromium, installed with apt-get when root; or the image in
// NEARJOB_CHROME_IMAGE (by default chromedp/headless-shell) in a container, behind a script
// that takes the same arguments.
//
// In a container the browser sees the folder for temporary files and shares the
// host's network, so that pages and its remote debugging are found where a local one
// would have them. That needs a Docker daemon on this machine, and Linux.
//
// Its own lines go to stderr, and the exit code is the command's.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	envChrome  = "NEARJOB_CHROME"
	envRequire = "NEARJOB_REQUIRE_CHROME"
	envImage   = "NEARJOB_CHROME_IMAGE"

	defaultImage = "chromedp/headless-shell:stable"
)

// names are what browsers are called on the path.
var names = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless-shell"}

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 || args[0] == "-h" || args[0] == "--help" {
		fmt.Fprintln(stderr, "usage: go run ./testdata/withchrome -- COMMAND [ARGUMENT...]")
		return 2
	}
	dir, err := os.MkdirTemp("", "nearjob-chrome-")
	if err != nil {
		fmt.Fprintf(stderr, "withchrome: %v\n", err)
		return 1
	}
	defer os.RemoveAll(dir) // a script at the most
	path, err := browser(dir, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "withchrome: no browser: %v (install Chromium, or name one in %s)\n", err, envChrome)
		return 1
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), envChrome+"="+path, envRequire+"=1")
	// SIGTERM may be for this process alone; Ctrl-C reaches the command by itself.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err = cmd.Start(); err == nil {
		go func() {
			for s := range signals {
				if s != os.Interrupt {
					_ = cmd.Process.Signal(s) // it may have just ended
				}
			}
		}()
		err = cmd.Wait()
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintf(stderr, "withchrome: %v\n", err)
		return 1
	}
	return 0
}

// browser returns the path of a browser. dir is for a script, if one is needed.
func browser(dir string, log io.Writer) (string, error) {
	if path := os.Getenv(envChrome); path != "" {
		return exec.LookPath(path)
	}
	if path := find(); path != "" {
		return path, nil
	}
	if os.Getenv(envImage) == "" && os.Geteuid() == 0 && isDebian() {
		fmt.Fprintln(log, "withchrome: installing chromium with apt-get")
		err := install(log)
		if path := find(); err == nil && path != "" {
			return path, nil
		}
		fmt.Fprintf(log, "withchrome: that failed: %v\n", err)
	}
	return container(dir, log)
}

// find returns the first browser on the path, or "".
func find() string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

func isDebian() bool {
	data, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		if strings.TrimSpace(line) == "ID=debian" {
			_, err := exec.LookPath("apt-get")
			return err == nil
		}
	}
	return false
}

// install installs Debian's chromium. Its own words are shown only if it fails.
func install(log io.Writer) error {
	for _, args := range [][]string{
		{"-q", "update"},
		{"-q", "install", "-y", "--no-install-recommends", "chromium", "fonts-dejavu-core"},
	} {
		cmd := exec.Command("apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			_, _ = log.Write(out) // the error below says the rest
			return fmt.Errorf("apt-get %s: %w", strings.Join(args, " "), err)
		}
	}
	return nil
}

// container writes a script that runs the browser of an image, and returns its path.
func container(dir string, log io.Writer) (string, error) {
	docker, err := exec.LookPath("docker")
	if err != nil {
		return "", fmt.Errorf("neither on the path, nor Docker to run one: %w", err)
	}
	image := os.Getenv(envImage)
	if image == "" {
		image = defaultImage
	}
	if err := exec.Command(docker, "image", "inspect", image).Run(); err != nil {
		fmt.Fprintf(log, "withchrome: pulling %s\n", image)
		if out, err := exec.Command(docker, "pull", "-q", image).CombinedOutput(); err != nil {
			return "", fmt.Errorf("image %s is not here and cannot be pulled: %w: %s", image, err, bytes.TrimSpace(out))
		}
	}
	script := filepath.Join(dir, "chrome")
	text := fmt.Sprintf(`#!/bin/sh
exec %s run --rm --init --network host --shm-size 256m --user %d:%d --env HOME=/tmp --volume %[4]s:%[4]s \
	--entrypoint sh %[5]s -c 'for b in /headless-shell/headless-shell chromium google-chrome; do
		if command -v "$b" >/dev/null; then exec "$b" --no-sandbox "$@"; fi
	done; echo "no browser in the image" >&2; exit 1' chrome "$@"
`, quote(docker), os.Getuid(), os.Getgid(), quote(os.TempDir()), quote(image))
	return script, os.WriteFile(script, []byte(text), 0o700)
}

// quote quotes a word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
