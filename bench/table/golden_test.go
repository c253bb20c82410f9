package table

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

var update = flag.Bool("update", false, "write the golden files")

// What is printed, for tables of several kinds. That it works is shown in TestAdvise.
func TestPrinted(t *testing.T) {
	double := func(name string) column {
		return column{name: name, dataType: "double", fullType: "double", nullable: true}
	}
	id := column{name: "id", dataType: "bigint", fullType: "bigint unsigned"}
	primary := index{name: "PRIMARY", unique: true, visible: true, kind: "BTREE", parts: []indexPart{{column: "id"}}}
	text := column{name: "lat", dataType: "varchar", fullType: "varchar(20)", charset: "utf8mb4", collation: "utf8mb4_0900_ai_ci", nullable: true}
	base := Source{
		schema: "shop", table: "my_jobs", engine: "InnoDB", online: true, id: id, lat: double("lat"), lng: double("lng"),
		columns: []string{"id", "lat", "lng"}, indexes: []index{primary},
	}
	tests := []struct {
		name   string
		change func(*Source)
		at     question
	}{
		{"plain", func(*Source) {}, question{geo.LatLng{Lat: 52.52, Lng: 13.405}, 5000}},
		{"antimeridian", func(*Source) {}, question{geo.LatLng{Lat: -17.8, Lng: 179.99}, 5000}},
		{"text", func(s *Source) { s.lat = text }, question{geo.LatLng{Lat: 40.7128, Lng: -74.006}, 1000}},
		{"view", func(s *Source) { s.view, s.engine, s.online, s.indexes = true, "", false, nil }, question{geo.LatLng{Lat: 52.52, Lng: 13.405}, 1000}},
		{"condition", func(s *Source) { s.cfg.Where = "status = 'open'" }, question{geo.LatLng{Lat: 52.52, Lng: 13.405}, 1000}},
		{"no_primary_key", func(s *Source) { s.indexes = nil }, question{geo.LatLng{Lat: 52.52, Lng: 13.405}, 1000}},
		{"names_taken", func(s *Source) {
			s.table = "my `jobs`"
			s.columns = append(s.columns, "pt", "S2")
			s.indexes = append(s.indexes, index{name: "lat_lng", visible: true, kind: "BTREE", parts: []indexPart{{column: "lat"}, {column: "lng", prefix: 3}}})
		}, question{geo.LatLng{Lat: 52.52, Lng: 13.405}, 1000}},
		{"indexed", func(s *Source) {
			s.indexes = append(s.indexes, index{name: "place", visible: true, kind: "BTREE", parts: []indexPart{{column: "lat"}, {column: "lng"}}})
		}, question{geo.LatLng{Lat: 52.52, Lng: 13.405}, 1000}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := base
			tt.change(&s)
			s.tally = newTally(&s)
			var b strings.Builder
			fmt.Fprintf(&b, "today\n%s\n", s.today(tt.at).rows(20))
			for _, p := range s.plans() {
				fmt.Fprintf(&b, "\n== %s\n%s\n\n", p.strategy, strings.Join(p.ddl, "\n"))
				fmt.Fprintf(&b, "%s\n\n%s\n", search{p.target, tt.at.at, tt.at.radius, p.parts(around(tt.at.at, tt.at.radius))}.rows(20), p.needs)
			}
			golden(t, tt.name+".golden", b.String())
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (see -update):\n%s", name, got)
	}
}

func TestReadError(t *testing.T) {
	mysqlError := func(number uint16, state string) error {
		e := &mysql.MySQLError{Number: number, Message: "said MySQL"}
		copy(e.SQLState[:], state)
		return e
	}
	var invalid *store.InvalidError
	tests := []struct {
		where string
		err   error
		want  string
		is    func(error) bool
	}{
		{"", mysqlError(1142, "42000"), "GRANT SELECT ON `a`.`b`", nil},
		{"x = 1", mysqlError(1142, "42000"), "GRANT SELECT ON `a`.`b`", nil},
		{"", mysqlError(3024, "HY000"), "narrow it with where", func(err error) bool { return errors.Is(err, store.ErrTimeout) }},
		{"", mysqlError(1356, "HY000"), "the view a.b cannot be read", nil},
		{"", mysqlError(1146, "42S02"), "read a.b, which is gone", nil},
		{"x = 1", mysqlError(1054, "42S22"), "where: MySQL does not take the condition", func(err error) bool { return errors.As(err, &invalid) }},
		{"", mysqlError(1054, "42S22"), "read a.b: ", func(err error) bool { return !errors.As(err, &invalid) }},
		{"x = 1", mysqlError(1317, "70100"), "read a.b: ", func(err error) bool { return !errors.As(err, &invalid) }},
		{"x = 1", errors.New("lost"), "read a.b: lost", nil},
	}
	for _, tt := range tests {
		s := &Source{schema: "a", table: "b", cfg: Config{Where: tt.where}}
		got := s.readError(t.Context(), tt.err)
		if !errors.Is(got, tt.err) || !strings.Contains(got.Error(), tt.want) || tt.is != nil && !tt.is(got) {
			t.Errorf("%v with where %q: got %v, want %s", tt.err, tt.where, got, tt.want)
		}
	}
	if err := new(Source).readError(t.Context(), nil); err != nil {
		t.Errorf("got %v for no error", err)
	}
}
