package storetest_test

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/nearjob/nearjob"

// wall says what a part of the module must not import, directly or not.
type wall struct {
	of    string // the package and all below it
	never []string
	why   string
}

// databases are what reaches a database by itself. database/sql is not among
// them, for Prometheus's client imports it: see sqlOnly.
var databases = []string{
	"github.com/go-sql-driver/mysql", "github.com/jmoiron/sqlx", "github.com/mattn/go-sqlite3",
	"github.com/ncruces/go-sqlite3", "modernc.org/sqlite", "github.com/pressly/goose/v3",
}

var walls = []wall{
	{"api", append([]string{module + "/store/mysql", module + "/store/sqlite"}, databases...), "the API knows no database"},
	{"store/search", append([]string{module + "/store/mysql", module + "/store/sqlite", module + "/store/ingest"}, databases...), "a strategy knows no database"},
	{"store/mysql", []string{module + "/store/sqlite", module + "/store/search", module + "/store/ingest"}, "an engine knows nothing beside it"},
	{"store/sqlite", []string{module + "/store/mysql", module + "/store/search", module + "/store/ingest"}, "an engine knows nothing beside it"},
	{"store/ingest", append([]string{module + "/store/mysql", module + "/store/sqlite", module + "/store/search"}, databases...), "whoever imports chooses the store"},
	{"store", []string{module + "/api", module + "/bench"}, "imports go cmd -> api, bench -> store/* -> store -> geo"},
	{"geo", []string{module + "/store", module + "/api", module + "/bench"}, "imports go cmd -> api, bench -> store/* -> store -> geo"},
	{"api", []string{module + "/bench"}, "the API does not measure"},
	{"bench", []string{module + "/api"}, "imports go cmd -> api, bench -> store/* -> store -> geo"},
	{"bench/report", append([]string{module + "/store/mysql", module + "/bench/lab"}, databases...), "who shows results needs no database"},
	{"bench/result", append([]string{module + "/store/mysql", module + "/bench/lab"}, databases...), "who shows results needs no database"},
	{"", []string{module + "/cmd"}, "nothing imports a command"},
	{"", []string{module + "/store/storetest", module + "/testdata"}, "production code is free of tests"},
}

// testOnly are the parts that tests are made of, and not the product.
var testOnly = []string{"store/storetest", "testdata"}

// sqlOnly are the parts that may import database/sql themselves.
var sqlOnly = []string{"store/mysql", "store/sqlite", "bench", "cmd", "testdata", "store/storetest"}

// TestWalls keeps the imports of the module going one way.
func TestWalls(t *testing.T) {
	deps := dependencies(t)
	for _, w := range walls {
		checked := 0
		for pkg, all := range deps {
			if !inside(pkg, w.of) || slices.ContainsFunc(testOnly, func(p string) bool { return inside(pkg, p) }) {
				continue
			}
			checked++
			for _, dep := range all {
				for _, never := range w.never {
					if dep != pkg && within(dep, never) && !within(pkg, never) {
						t.Errorf("%s imports %s: %s", pkg, dep, w.why)
					}
				}
			}
		}
		if checked == 0 {
			t.Errorf("there are no packages in %q: the wall around it is in the wrong place", w.of)
		}
	}
	for pkg, imports := range list(t, "Imports") {
		// testcontainers-go, which starts the laboratory's server, imports testing itself.
		if slices.Contains(imports, "testing") && !slices.ContainsFunc(testOnly, func(p string) bool { return inside(pkg, p) }) {
			t.Errorf("%s imports testing: production code is free of tests", pkg)
		}
		if slices.Contains(imports, "database/sql") && !slices.ContainsFunc(sqlOnly, func(p string) bool { return inside(pkg, p) }) {
			t.Errorf("%s imports database/sql: only engines speak SQL", pkg)
		}
	}
	only := func(pkg string, allowed func(dep string) bool) {
		all, ok := deps[strings.TrimSuffix(module+"/"+pkg, "/")]
		if !ok || len(all) < 2 {
			t.Errorf("package %s has %d dependencies: the test looks in the wrong place", pkg, len(all))
		}
		for _, dep := range all {
			if !allowed(dep) {
				t.Errorf("%s imports %s, and may not", pkg, dep)
			}
		}
	}
	only("geo", func(dep string) bool { return standard(dep) || dep == module+"/geo" })
	only("store", func(dep string) bool {
		return standard(dep) || dep == module+"/geo" || dep == module+"/store"
	})
	only("geo/cell", func(dep string) bool { return !within(dep, module) || inside(dep, "geo") })
}

// TestWallsPaths holds that TestWalls takes no path for what it is not.
func TestWallsPaths(t *testing.T) {
	for pkg, parent := range map[string]string{
		module + "/store/search": "store/search", module + "/geo/cell": "geo", module + "/geocoding": "", module: "",
	} {
		if !inside(pkg, parent) {
			t.Errorf("%s is not inside %q", pkg, parent)
		}
	}
	if inside(module+"/storefront", "store") || inside("fmt", "") || standard("modernc.org/sqlite") || !standard("net/http") {
		t.Error("a path is taken for what it is not")
	}
}

// inside says whether a package is a part of the module, or below it.
func inside(pkg, part string) bool {
	if part == "" {
		return within(pkg, module)
	}
	return within(pkg, module+"/"+part)
}

func within(pkg, parent string) bool { return pkg == parent || strings.HasPrefix(pkg, parent+"/") }

// standard says whether a package is of the standard library: the first part of
// the path of all others is a domain.
func standard(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(first, ".")
}

// dependencies returns what each package of the module imports, directly or not,
// without its tests.
func dependencies(t *testing.T) map[string][]string {
	t.Helper()
	deps := list(t, "Deps")
	for _, must := range []string{"geo", "geo/cell", "store", "store/search", "store/mysql", "store/sqlite", "store/storetest"} {
		if len(deps[module+"/"+must]) < 2 {
			t.Fatalf("go list knows no package %s, or nothing that it imports", must)
		}
	}
	return deps
}

// list returns a field of each package of the module as go list prints it, behind
// the package itself.
func list(t *testing.T, field string) map[string][]string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .`+field+` " "}}`, module+"/...")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	packages := make(map[string][]string)
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 0 {
			packages[fields[0]] = fields
		}
	}
	if len(packages) == 0 {
		t.Fatal("go list knows no package")
	}
	return packages
}
