package main

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/nearjob/nearjob/bench/report"
	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/store/mysql"
	"github.com/nearjob/nearjob/testdata/testdb"
)

func TestPlansWrongUse(t *testing.T) {
	secret := "mysql://me:hunter2@127.0.0.1:1"
	for _, c := range []struct {
		code int
		args []string
		says string
	}{
		{2, []string{"--db", "sqlite:x"}, "want mysql://"},
		{2, []string{"--rows", "0"}, "rows: 0 is not 1.."},
		{2, []string{"--radius-m=-5"}, "radii_m: -5"},
		{2, []string{"--data", "round"}, `"round" is not one of dense`},
		{2, []string{"--keep"}, "--keep: the schemas go with the container"},
		{2, []string{"--table", "shop.jobs"}, "--table-db"},
		{2, []string{"--table-db", secret}, "--table-db needs --table"},
		{2, []string{"--table", "t", "--db", secret, "--file", "x.csv"}, "name one of them"},
		{2, []string{"--table", "t", "--where", "1; DROP TABLE t", "--db", secret}, "where"},
		{1, []string{"--file", filepath.Join(t.TempDir(), "none.csv"), "--db", secret}, "no such file"},
		{1, []string{"--data", "stacked", "--rows", "10", "--db", secret}, "127.0.0.1:1"},
		{2, []string{"experiment", "alchemy"}, "crossover"},
	} {
		args := append([]string{"plans"}, c.args...)
		code, _, errs := call(t, "", append(args, "--out", t.TempDir())...)
		if code != c.code || !strings.Contains(errs, c.says) || strings.Count(errs, "\n") != 1 || strings.Contains(errs, "hunter2") {
			t.Errorf("nearjob %s: exit code %d, %q; want %d and %q", strings.Join(args, " "), code, errs, c.code, c.says)
		}
	}
}

// readRun reads the report in a folder and checks that its other files are there.
func readRun(t *testing.T, dir string) *result.Run {
	t.Helper()
	for _, name := range []string{report.HTMLFile, report.MarkdownFile} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	run, err := readReport(dir)
	if err != nil || run == nil {
		t.Fatalf("%v, %v", run, err)
	}
	return run
}

// TestPlans captures, captures again from what is there, and adds an experiment, all in
// one folder.
func TestPlans(t *testing.T) {
	dsn, dir := testdb.MySQL(t), t.TempDir()
	args := []string{"plans", "--db", dsn, "--data", "dense,stacked", "--rows", "200,400", "--radius-m", "3000", "--limit", "10", "--quick", "--out", dir}
	out := must(t, "", args...)
	if !strings.Contains(out, "report.html") || !strings.Contains(out, "For this data") {
		t.Errorf("it printed %q", out)
	}
	first := readRun(t, dir)
	if len(first.Cases) != 2*2*6 || first.Settings.Container {
		t.Errorf("%d cases; container: %v", len(first.Cases), first.Settings.Container)
	}

	out = must(t, "", "plans", "experiment", "reuse", "--quick", "--db", dsn, "--out", dir)
	if !strings.Contains(out, "published: ") || !strings.Contains(out, "here: ") {
		t.Errorf("the experiment printed %q", out)
	}
	second := readRun(t, dir)
	if len(second.Cases) != len(first.Cases) || len(second.Experiments) != 1 || second.Experiments[0].Name != "reuse" {
		t.Errorf("%d cases and %d experiments", len(second.Cases), len(second.Experiments))
	}

	// Again: nothing is measured, so that every figure is the same.
	must(t, "", args...)
	third := readRun(t, dir)
	for i := range first.Cases {
		if first.Cases[i].Free.Time != third.Cases[i].Free.Time {
			t.Errorf("%s was measured again", first.Cases[i].Key())
		}
	}
	if len(third.Experiments) != 1 {
		t.Error("the experiment is lost")
	}

	// Without a server: all that is needed is in the folder.
	var offline []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--db" {
			i++
			continue
		}
		offline = append(offline, args[i])
	}
	t.Setenv("DOCKER_HOST", "unix:///no/such/socket")
	must(t, "", offline...)
}

func TestPlansOfAFile(t *testing.T) {
	dir := t.TempDir()
	var csv strings.Builder
	csv.WriteString("title,lat,lng\n")
	for i := range 50 {
		fmt.Fprintf(&csv, "job %d,40.7%d,-74.0%d\n", i, i, i)
	}
	csv.WriteString("unknown,0,0\n")
	file := filepath.Join(t.TempDir(), "offices.csv")
	if err := os.WriteFile(file, []byte(csv.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "", "plans", "--db", testdb.MySQL(t), "--file", file, "--rows", "50", "--radius-m", "2000", "--quick", "--out", dir)
	run := readRun(t, dir)
	if len(run.Sets) != 1 || run.Sets[0].Name != "offices" || !strings.Contains(run.Sets[0].About, "1 of its 51 records") {
		t.Errorf("%+v", run.Sets)
	}
	if len(run.Cases) == 0 || run.Cases[0].Within == 0 {
		t.Error("nothing was found around the densest place")
	}
}

func TestPlansOfATable(t *testing.T) {
	dsn, dir := testdb.MySQL(t), t.TempDir()
	cfg, err := mysql.DriverConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	exec := func(q string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), q, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TABLE jobs (no INT PRIMARY KEY, latitude DOUBLE, longitude DOUBLE, state VARCHAR(10))")
	for i := range 60 {
		exec("INSERT INTO jobs VALUES (?, ?, ?, 'open')", i, 52.5+float64(i)/1000, 13.4+float64(i)/1000)
	}
	exec("INSERT INTO jobs VALUES (1000, NULL, 13, 'open'), (1001, 52.5, 13.4, 'done')")
	table := func(args ...string) []string {
		return append([]string{"plans", "--db", dsn, "--table", cfg.DBName + ".jobs", "--id", "no", "--rows", "100", "--radius-m", "2000", "--quick", "--out", dir}, args...)
	}
	code, _, errs := call(t, "", table("--lat", "latitud", "--lng", "longitude")...)
	if code != 2 || !strings.Contains(errs, "latitude") {
		t.Errorf("exit code %d, %q", code, errs)
	}
	must(t, "", table("--lat", "latitude", "--lng", "longitude", "--where", "state = 'open'")...)
	run := readRun(t, dir)
	if run.Table == nil || run.Table.Rows != 61 || run.Table.Copied != 61 || len(run.Table.Problems) == 0 || len(run.Table.Advice) == 0 {
		t.Fatalf("%+v", run.Table)
	}
	if len(run.Cases) != 6 || run.Cases[0].Within == 0 {
		t.Errorf("%d cases, %+v", len(run.Cases), run.Cases)
	}
}
