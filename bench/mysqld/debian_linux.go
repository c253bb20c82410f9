package mysqld

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/client"
)

const (
	keyring       = "/usr/share/keyrings/debian-archive-keyring.gpg"
	debootstrapIn = 15 * time.Minute // bounds one attempt on a slow mirror
	aptGetIn      = 5 * time.Minute
	killAfter     = 10 * time.Second // from SIGTERM to SIGKILL
)

// buildImage makes builtImage: debootstrap installs Debian unstable with MySQL
// into a folder, and the Docker daemon imports it. Signatures are always
// checked. The caller holds the build lock. The image appears whole or not at
// all, and the folder is gone afterwards.
func buildImage(ctx context.Context, docker *client.Client, logf func(string, ...any)) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("debootstrap needs root")
	}
	mirrors, err := findMirrors(logf)
	if err != nil {
		return err
	}
	if err := needPackage(ctx, "debootstrap", func() bool {
		_, err := exec.LookPath("debootstrap")
		return err == nil
	}, logf); err != nil {
		return err
	}
	if err := needPackage(ctx, "debian-archive-keyring", func() bool {
		_, err := os.Stat(keyring)
		return err == nil
	}, logf); err != nil {
		return err
	}

	// Half a gigabyte: /var/tmp, because /tmp may be in memory, and may be
	// mounted with options that debootstrap refuses.
	parent := os.Getenv("TMPDIR")
	if parent == "" {
		parent = "/var/tmp"
	}
	dir, err := os.MkdirTemp(parent, "nearjob-mysqld-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeTree(dir)) }()

	began := time.Now()
	root, err := bootstrap(ctx, dir, mirrors, logf)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, entrypointPath), entrypoint, 0o755); err != nil {
		return err
	}
	// Proves that the program is there and finds its libraries.
	out, err := run(ctx, nil, "chroot", root, "mysqld", "--version")
	if err != nil {
		return err
	}
	version := strings.TrimSpace(string(out))
	logf("debootstrap took %.0f s: %s", time.Since(began).Seconds(), version)

	began = time.Now()
	old, inspectErr := docker.ImageInspect(ctx, builtImage)
	if err := importTree(ctx, docker, root); err != nil {
		return fmt.Errorf("import the image: %w", err)
	}
	if inspectErr == nil {
		removeImage(ctx, docker, old.ID, logf)
	}
	logf("importing %s took %.0f s", builtImage, time.Since(began).Seconds())
	return nil
}

// findMirrors returns the Debian mirrors of this machine's apt sources.
func findMirrors(logf func(string, ...any)) ([]string, error) {
	machine := os.DirFS("/")
	release := osRelease(machine)
	if release["ID"] != "debian" {
		return nil, errors.New("this is not Debian, so its apt sources name no Debian mirror")
	}
	sources, warnings := readAptSources(machine)
	mirrors, more := debianMirrors(machine, sources, release["VERSION_CODENAME"])
	for _, w := range append(warnings, more...) {
		logf("apt sources: %s", w)
	}
	if len(mirrors) == 0 {
		return nil, errors.New("no Debian mirror in the apt sources of this machine (release without suffix, component main)")
	}
	return mirrors, nil
}

// osRelease reads etc/os-release below fsys; what is missing is "".
func osRelease(fsys fs.FS) map[string]string {
	values := make(map[string]string)
	data, err := fs.ReadFile(fsys, "etc/os-release")
	if err != nil {
		return values
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			values[name] = strings.Trim(value, `"'`)
		}
	}
	return values
}

// needPackage installs a package unless present says that it is there.
func needPackage(ctx context.Context, name string, present func() bool, logf func(string, ...any)) error {
	if present() {
		return nil
	}
	logf("installing %s with apt-get", name)
	err := aptInstall(ctx, name)
	if err == nil && !present() {
		err = errors.New("the package does not hold what was expected")
	}
	if err != nil {
		return fmt.Errorf("%s is missing and cannot be installed: %w", name, err)
	}
	return nil
}

// aptInstall installs or upgrades a package. It reads the package lists anew if
// it must, since a fresh machine has none and an old one has stale ones.
func aptInstall(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, aptGetIn)
	defer cancel()
	env := []string{"DEBIAN_FRONTEND=noninteractive"}
	options := []string{"-q", "-o", "DPkg::Lock::Timeout=120"}
	install := append(slices.Clone(options), "install", "-y", "--no-install-recommends", name)
	_, err := run(ctx, env, "apt-get", install...)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if _, err := run(ctx, env, "apt-get", append(options, "update")...); err != nil {
		return err
	}
	_, err = run(ctx, env, "apt-get", install...)
	return err
}

// bootstrap installs the system from the first mirror that works and returns
// its root folder, which is inside dir.
func bootstrap(ctx context.Context, dir string, mirrors []string, logf func(string, ...any)) (root string, err error) {
	// debootstrap mounts /proc in the new system. In a mount namespace of its own
	// that mount ends with it, however it ends.
	var prefix []string
	unshare := []string{"unshare", "--mount", "--propagation", "private"}
	if _, err := run(ctx, nil, unshare[0], append(unshare[1:], "true")...); err == nil {
		prefix = unshare
	}
	var errs []error
	upgraded := false
	for i := 0; i < len(mirrors); {
		mirror := mirrors[i]
		// A folder for each attempt: debootstrap wants an empty one. The mode of
		// its root becomes that of / in the image.
		root := filepath.Join(dir, fmt.Sprintf("root%d", len(errs)))
		if err := os.Mkdir(root, 0o755); err != nil {
			return "", err
		}
		if err := os.Chmod(root, 0o755); err != nil { // whatever the umask
			return "", err
		}
		logf("installing Debian %s with MySQL from %s, which takes about a minute", debianSuite, redacted(mirror))
		attempt, cancel := context.WithTimeout(ctx, debootstrapIn)
		args := append(slices.Clone(prefix), "debootstrap", "--variant=minbase", "--include="+debianPackages,
			"--force-check-gpg", "--keyring="+keyring, debianSuite, root, mirror)
		out, err := run(attempt, proxyEnv(ctx, mirror), args[0], args[1:]...)
		cancel()
		if err == nil {
			return root, nil
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		// Where a package fails to install, only this file says why.
		if detail, e := os.ReadFile(filepath.Join(root, "debootstrap", "debootstrap.log")); e == nil {
			err = fmt.Errorf("%w\n    the end of debootstrap.log:%s", err, tail(detail, 10))
		}
		errs = append(errs, errors.New(strings.ReplaceAll(err.Error(), mirror, redacted(mirror))))
		if err := removeTree(root); err != nil {
			return "", errors.Join(append(errs, err)...)
		}
		// Debian signs unstable with new keys at times, and gives them to stable
		// beforehand in this package, which apt checks with the keys it knows.
		if !upgraded && bytes.Contains(out, []byte("Release signed by unknown key")) {
			upgraded = true
			logf("the archive is signed with a key that is not known here: upgrading debian-archive-keyring")
			if err := upgradeKeyring(ctx); err != nil {
				return "", errors.Join(append(errs, err)...)
			}
			continue
		}
		i++
	}
	return "", errors.Join(errs...)
}

// upgradeKeyring fetches the newest keys that this release of Debian has.
func upgradeKeyring(ctx context.Context) error {
	updateCtx, cancel := context.WithTimeout(ctx, aptGetIn)
	defer cancel()
	if _, err := run(updateCtx, nil, "apt-get", "-q", "-o", "DPkg::Lock::Timeout=120", "update"); err != nil {
		return err
	}
	return aptInstall(ctx, "debian-archive-keyring")
}

// proxyEnv returns the proxy variables for debootstrap's downloads from
// apt's configuration, which only apt itself reads.
func proxyEnv(ctx context.Context, mirror string) []string {
	u, err := url.Parse(mirror)
	if err != nil || u.Scheme == "file" {
		return nil
	}
	key := "Acquire::" + u.Scheme + "::Proxy"
	// Without apt-config there is no apt configuration to follow.
	out, err := run(ctx, nil, "apt-config", "dump", "--no-empty", "--format", "%f=%v%n", key)
	if err != nil {
		return nil
	}
	return parseProxy(out, key, u.Scheme, u.Hostname())
}

// parseProxy reads "key=value" lines: a proxy for the host goes before the
// general one, and DIRECT means none.
func parseProxy(dump []byte, key, scheme, host string) []string {
	var general, special string
	lines := bufio.NewScanner(bytes.NewReader(dump))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "=")
		switch {
		case strings.EqualFold(name, key):
			general = value
		case strings.EqualFold(name, key+"::"+host):
			special = value
		}
	}
	if special != "" {
		general = special
	}
	switch general {
	case "":
		return nil
	case "DIRECT":
		return []string{scheme + "_proxy="}
	}
	return []string{scheme + "_proxy=" + general}
}

// importTree gives the folder to the Docker daemon as an image. If tar fails
// the request breaks off, and the daemon makes no image.
func importTree(ctx context.Context, docker *client.Client, root string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tar := command(ctx, nil, "tar", "--create", "--file=-", "--directory="+root,
		"--numeric-owner", "--one-file-system",
		"--exclude=./dev/*", "--exclude=./proc/*", "--exclude=./sys/*",
		"--exclude=./var/cache/apt/archives/*.deb", "--exclude=./var/lib/apt/lists/*", "--exclude=./var/log/*", ".")
	var stderr bytes.Buffer
	r, w := io.Pipe()
	tar.Stdout, tar.Stderr = w, &stderr
	if err := tar.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		err := tar.Wait()
		if err != nil {
			err = fmt.Errorf("tar: %w%s", err, tail(stderr.Bytes(), 5))
		}
		w.CloseWithError(err) // nil: the end of the file
		done <- err
	}()
	changes := append(slices.Clone(imageChanges), "LABEL "+labelRecipe+"="+recipe())
	err := load(ctx, docker, r, changes)
	// tar ends when nobody reads any more.
	r.CloseWithError(errors.New("the import ended"))
	if tarErr := <-done; tarErr != nil && err == nil {
		return tarErr
	}
	return err
}

func load(ctx context.Context, docker *client.Client, r io.Reader, changes []string) error {
	res, err := docker.ImageImport(ctx, client.ImageImportSource{Source: r, SourceName: "-"}, builtImage,
		client.ImageImportOptions{Message: "MySQL from Debian " + debianSuite, Changes: changes})
	if err != nil {
		return err
	}
	defer res.Close()
	return importResult(res)
}

// removeTree removes a folder, but never reaches into a file system that is
// mounted inside it, which could be the machine's own /proc or /dev.
func removeTree(dir string) error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("%s stays, since what is mounted in it is not known: %w", dir, err)
	}
	mounts := mountsBelow(data, dir)
	for _, m := range slices.Backward(mounts) {
		if err := syscall.Unmount(m, 0); err != nil {
			return fmt.Errorf("%s stays, since %s is mounted in it: %w (umount it, then remove the folder)", dir, m, err)
		}
	}
	return os.RemoveAll(dir)
}

// mountsBelow returns the mount points inside dir, in the order of mounting.
func mountsBelow(mountinfo []byte, dir string) (mounts []string) {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(string(mountinfo)) {
		// ID, parent, device, root, mount point: see proc(5).
		if fields := strings.Fields(line); len(fields) > 4 {
			if m := unescape.Replace(fields[4]); strings.HasPrefix(m, dir+"/") {
				mounts = append(mounts, m)
			}
		}
	}
	return mounts
}

// command prepares a program that runs in a process group of its own, which is
// told to end when ctx does. It gets no input and English messages.
func command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killAfter
	return cmd
}

// run runs a program and returns all that it printed. Its error shows the end of that.
func run(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	var out bytes.Buffer
	cmd := command(ctx, env, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		// Whatever of the group did not follow the SIGTERM.
		if e := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); e != nil && !errors.Is(e, syscall.ESRCH) {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return out.Bytes(), fmt.Errorf("%s: %w%s", filepath.Base(name), err, tail(out.Bytes(), 10))
	}
	return out.Bytes(), nil
}

// redacted hides a password in an address.
func redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an unreadable address"
	}
	return u.Redacted()
}
