package mysqld

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
)

// An aptSource is one place that apt takes binary packages from.
type aptSource struct {
	URI        string
	Suite      string
	Components []string
}

// readAptSources reads etc/apt below fsys, the root of the machine's file
// system: the one-line format (sources.list(5)) and deb822. Entries that it
// cannot read become warnings, since others may be enough.
func readAptSources(fsys fs.FS) (sources []aptSource, warnings []string) {
	files := []string{"etc/apt/sources.list"}
	for _, pattern := range []string{"*.list", "*.sources"} {
		// The only possible error is a malformed pattern.
		more, _ := fs.Glob(fsys, "etc/apt/sources.list.d/"+pattern)
		files = append(files, more...)
	}
	for _, name := range files {
		data, err := fs.ReadFile(fsys, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			warnings = append(warnings, err.Error())
			continue
		}
		parse := parseAptList
		if path.Ext(name) == ".sources" {
			parse = parseAptDeb822
		}
		s, w := parse(data)
		sources = append(sources, s...)
		for _, warning := range w {
			warnings = append(warnings, name+": "+warning)
		}
	}
	return sources, warnings
}

// parseAptList reads lines such as
//
//	deb [arch=amd64 signed-by=/path] https://host/debian suite main contrib
func parseAptList(data []byte) (sources []aptSource, warnings []string) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		kind, rest, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(line, "\t", " ")), " ")
		if kind == "" || kind == "deb-src" {
			continue
		}
		rest = strings.TrimSpace(rest)
		if strings.HasPrefix(rest, "[") {
			_, after, found := strings.Cut(rest, "]")
			if !found {
				warnings = append(warnings, fmt.Sprintf("line %d: the options have no ]", n))
				continue
			}
			rest = after
		}
		fields := strings.Fields(rest)
		if kind != "deb" || len(fields) < 2 {
			warnings = append(warnings, fmt.Sprintf("line %d: not of the form deb [options] URI suite component", n))
			continue
		}
		sources = append(sources, aptSource{URI: fields[0], Suite: fields[1], Components: fields[2:]})
	}
	if err := lines.Err(); err != nil {
		warnings = append(warnings, err.Error())
	}
	return sources, warnings
}

// parseAptDeb822 reads stanzas of "Field: values", separated by empty lines.
// A line that starts with a space continues a field, and one that starts with
// # is a comment wherever it stands.
func parseAptDeb822(data []byte) (sources []aptSource, warnings []string) {
	stanza := make(map[string]string)
	start := 1
	flush := func(next int) {
		if len(stanza) > 0 {
			s, warning := deb822Sources(stanza)
			sources = append(sources, s...)
			if warning != "" {
				warnings = append(warnings, fmt.Sprintf("stanza at line %d: %s", start, warning))
			}
		}
		stanza, start = make(map[string]string), next
	}
	var field string
	lines := bufio.NewScanner(bytes.NewReader(data))
	n := 1
	for ; lines.Scan(); n++ {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.TrimSpace(line) == "":
			flush(n + 1)
			field = ""
		case line[0] == ' ' || line[0] == '\t':
			if field != "" {
				stanza[field] += " " + strings.TrimSpace(line)
			}
		default:
			name, value, found := strings.Cut(line, ":")
			if !found {
				warnings = append(warnings, fmt.Sprintf("line %d: not of the form Field: value", n))
				field = ""
				continue
			}
			field = strings.ToLower(strings.TrimSpace(name))
			stanza[field] = strings.TrimSpace(value)
		}
	}
	flush(n)
	if err := lines.Err(); err != nil {
		warnings = append(warnings, err.Error())
	}
	return sources, warnings
}

// deb822Sources returns the sources of one stanza: each of its URIs with each
// of its suites.
func deb822Sources(stanza map[string]string) (sources []aptSource, warning string) {
	if !slices.Contains(strings.Fields(stanza["types"]), "deb") {
		return nil, ""
	}
	switch strings.ToLower(stanza["enabled"]) {
	case "no", "false", "without", "off", "disable", "0":
		return nil, ""
	}
	uris, suites := strings.Fields(stanza["uris"]), strings.Fields(stanza["suites"])
	if len(uris) == 0 || len(suites) == 0 {
		return nil, "URIs or Suites is missing"
	}
	for _, uri := range uris {
		for _, suite := range suites {
			sources = append(sources, aptSource{URI: uri, Suite: suite, Components: strings.Fields(stanza["components"])})
		}
	}
	return sources, ""
}

// debianMirrors returns the addresses in sources that look like a Debian
// archive and that debootstrap can read, in order and without duplicates. An
// archive is told by a release without suffix ("bookworm", not
// "bookworm-security") and the component main. Whether it carries unstable, and
// is Debian's at all, shows when debootstrap checks its signature.
func debianMirrors(fsys fs.FS, sources []aptSource, codename string) (mirrors, warnings []string) {
	releases := []string{"stable", "oldstable", "testing", "unstable", "sid"}
	if codename != "" {
		releases = append(releases, codename)
	}
	add := func(uri string) {
		u, err := url.Parse(uri)
		if err != nil {
			// The cause would show the address, and with it a password.
			warnings = append(warnings, "an address in the apt sources cannot be read")
			return
		}
		switch u.Scheme {
		case "http", "https", "file":
			if uri = strings.TrimRight(uri, "/"); !slices.Contains(mirrors, uri) {
				mirrors = append(mirrors, uri)
			}
		default:
			warnings = append(warnings, fmt.Sprintf("debootstrap cannot read the address %s", u.Redacted()))
		}
	}
	for _, s := range sources {
		if !slices.Contains(releases, s.Suite) || !slices.Contains(s.Components, "main") {
			continue
		}
		// mirror+file:/etc/apt/mirrors/debian.list, as on Debian's cloud images.
		name, isList := strings.CutPrefix(s.URI, "mirror+file:")
		if !isList {
			add(s.URI)
			continue
		}
		data, err := fs.ReadFile(fsys, strings.TrimLeft(name, "/"))
		if err != nil {
			warnings = append(warnings, err.Error())
			continue
		}
		for line := range strings.Lines(string(data)) {
			line, _, _ = strings.Cut(line, "#")
			if fields := strings.Fields(line); len(fields) > 0 {
				add(fields[0])
			}
		}
	}
	return mirrors, warnings
}
