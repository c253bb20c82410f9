package table

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

func ExampleConfig_Validate() {
	c := Config{Source: new(sql.DB), Table: "shop.jobs", ID: "id", Lat: "pos", Lng: "pos", Where: "open = 1; DROP TABLE jobs", Sample: -1}
	var invalid *store.InvalidError
	if errors.As(c.Validate(), &invalid) {
		for _, f := range invalid.Faults {
			fmt.Println(f.Field + ": " + f.Reason)
		}
	}
	// Output:
	// lng: is the same column as lat: id, latitude and longitude are three columns (a geometry column does not do for two)
	// where: has a semicolon outside quotes: want one condition
	// sample: -1 is negative: want a number of rows, or 0 for all
}

func TestValidate(t *testing.T) {
	valid := func() Config {
		return Config{Source: new(sql.DB), Table: "a.b", ID: "id", Lat: "lat", Lng: "lng"}
	}
	c := valid()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		change func(*Config)
		fields []string
	}{
		{func(c *Config) { *c = Config{} }, []string{"source", "table", "id", "lat", "lng"}},
		{func(c *Config) { c.Table = "a.b.c" }, []string{"table"}},
		{func(c *Config) { c.Table = "a." }, []string{"table"}},
		{func(c *Config) { c.Table = "`a" }, []string{"table"}},
		{func(c *Config) { c.Table = "`a`b" }, []string{"table"}},
		{func(c *Config) { c.ID = "LAT" }, []string{"lat"}},
		{func(c *Config) { c.ID = strings.Repeat("é", 65) }, []string{"id"}},
		{func(c *Config) { c.ID = "a\x00" }, []string{"id"}},
		{func(c *Config) { c.Lat = "a\xff" }, []string{"lat"}},
		{func(c *Config) { c.Lat = "a " }, []string{"lat"}},
		{func(c *Config) { c.Lng = "`a`.`b`" }, []string{"lng"}},
		{func(c *Config) { c.Lng = "😀" }, []string{"lng"}},
		{func(c *Config) { c.Where, c.Sample = "(", -1 }, []string{"where", "sample"}},
		{func(c *Config) { c.Radii = []float64{1, 0} }, []string{"radii"}},
		{func(c *Config) { c.Radii = []float64{math.NaN(), -1} }, []string{"radii", "radii"}},
		{func(c *Config) { c.Radii, c.Limit = []float64{math.Inf(1)}, 201 }, []string{"limit"}},
	}
	for i, tt := range tests {
		c := valid()
		tt.change(&c)
		var invalid *store.InvalidError
		if err := c.Validate(); !errors.As(err, &invalid) {
			t.Errorf("%d: got %v, want an InvalidError", i, err)
			continue
		}
		var fields []string
		for _, f := range invalid.Faults {
			fields = append(fields, f.Field)
		}
		if !slices.Equal(fields, tt.fields) {
			t.Errorf("%d: got faults of %v (%v), want %v", i, fields, invalid, tt.fields)
		}
	}
}

func TestRadii(t *testing.T) {
	for _, tt := range []struct{ in, want []float64 }{
		{nil, DefaultRadii()},
		{[]float64{math.Inf(1)}, DefaultRadii()},
		{[]float64{500, math.Inf(1), 50, 500}, []float64{50, 500}},
	} {
		c := Config{Radii: slices.Clone(tt.in)}
		if got := c.radii(); !slices.Equal(got, tt.want) {
			t.Errorf("%v: got %v, want %v", tt.in, got, tt.want)
		}
		if !slices.Equal(c.Radii, tt.in) {
			t.Errorf("%v was changed to %v", tt.in, c.Radii)
		}
	}
}

func TestParseTable(t *testing.T) {
	tests := []struct{ in, schema, table string }{
		{"jobs", "", "jobs"},
		{"my shop.the jobs", "my shop", "the jobs"},
		{"a.we`ird", "a", "we`ird"},
		{"`a.b`.`c``d`", "a.b", "c`d"},
		{"`a.b`.order", "a.b", "order"},
		{"a.`c.d`", "a", "c.d"},
	}
	for _, tt := range tests {
		schema, table, err := parseTable(tt.in)
		if schema != tt.schema || table != tt.table || err != nil {
			t.Errorf("%s: got %q, %q and %v, want %q, %q", tt.in, schema, table, err, tt.schema, tt.table)
		}
	}
}

// go test -fuzz FuzzParseTable ./bench/table
func FuzzParseTable(f *testing.F) {
	for _, s := range []string{"a.b", "`a``.b`.c", "``", "`", ".", "a..b", "`a`.", " "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		schema, table, err := parseTable(s)
		if err != nil {
			return
		}
		again := quote(table)
		if schema != "" {
			again = quote(schema) + "." + again
		}
		schema2, table2, err := parseTable(again)
		if schema != schema2 || table != table2 || err != nil {
			t.Errorf("%q: got %q, %q, but %q, %q and %v from %s", s, schema, table, schema2, table2, err, again)
		}
	})
}

func TestUnused(t *testing.T) {
	long := strings.Repeat("x", 64)
	tests := []struct {
		name  string
		taken []string
		want  string
	}{
		{"pt", nil, "pt"},
		{"pt", []string{"PT", "pt_2"}, "pt_3"},
		{long + "y", []string{long}, long[:62] + "_2"},
	}
	for _, tt := range tests {
		if got := unused(tt.name, tt.taken); got != tt.want {
			t.Errorf("%s beside %v: got %s, want %s", tt.name, tt.taken, got, tt.want)
		}
	}
}

func TestCheckWhere(t *testing.T) {
	for _, s := range []string{
		"", "status = 'open'", "a = 1 AND (b = 2 OR c IN (3, 4))", "t = 'it''s; -- no # comment /*'", `t = 'a\'; b'`, "`we;ird` = \"x)\"",
		"a = 1--1", "name = 'ü(' AND x > -1", "SUBSTRING(a FROM 1 FOR 2) = 'x'", "`into` = 1 AND 'for update' = b", "lock_in = 1", "t = '\\\\'",
	} {
		if err := checkWhere(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	tests := []struct{ in, want string }{
		{"  ", "blank"},
		{"a = 1;", "semicolon"},
		{"a = 1 -- b", "comment"},
		{"a = 1 --", "comment"},
		{"a = 1 --\tb", "comment"},
		{"a = 1 # b", "comment"},
		{"a = 1 /* b", "comment"},
		{"a /*! ) */ = 1", "comment"},
		{"a = 1 */", "comment"},
		{"a = 1) OR (1 = 1", "closing parenthesis"},
		{"(a = 1", "opening parenthesis"},
		{"a = 'x", "without its closing"},
		{`a = 'x\'`, "without its closing"},
		{"a = `x", "without its closing"},
		{`a = "x`, "without its closing"},
		{"a IN (SELECT a FROM t FOR UPDATE)", "locking read"},
		{"a IN (SELECT a FROM t for\n share)", "locking read"},
		{"a IN (SELECT a FROM t LOCK IN SHARE MODE)", "locking read"},
		{"1 INTO OUTFILE 'x'", "INTO"},
		{"a = '\xff'", "UTF-8"},
		{"a = '\x00'", "UTF-8"},
	}
	for _, tt := range tests {
		if err := checkWhere(tt.in); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.in, err, tt.want)
		}
	}
}

// go test -fuzz FuzzCheckWhere ./bench/table
func FuzzCheckWhere(f *testing.F) {
	for _, s := range []string{"a = 1", "a = 'x''y'", `a = "\""`, "(a)", "`b`", "a--1", "a\\'", "-", "/", "FOR"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if checkWhere(s) != nil || s == "" {
			return
		}
		// What is accepted is closed: it stays one operand, and ends in no quote.
		if err := checkWhere("(" + s + ") AND (1 = 1)"); err != nil {
			t.Errorf("%q is accepted, but in parentheses: %v", s, err)
		}
		for _, tail := range []string{" )", " ;", " '", " `", ` "`, " #"} {
			if checkWhere(s+tail) == nil {
				t.Errorf("%q is accepted with %q behind it", s, tail)
			}
		}
	})
}

func TestNearest(t *testing.T) {
	columns := []string{"id", "lat", "lng", "created_at", "Title"}
	tests := []struct{ name, want string }{
		{"latt", "lat"},
		{"lta", "lat"},
		{"latitude", "lat"},
		{"lon", "lng"},
		{"Longitude", "lng"},
		{"creatd_at", "created_at"},
		{"created", "created_at"},
		{"titel", "Title"},
		{"colour", ""},
		{"x", ""},
	}
	for _, tt := range tests {
		if got := nearest(tt.name, columns); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Every point in a circle is in one of its boxes, and in no two.
func TestBoxes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	inside := 0
	for range 20_000 {
		c := geo.LatLng{Lat: 180*rng.Float64() - 90, Lng: 360*rng.Float64() - 180}
		switch rng.IntN(4) {
		case 0:
			c.Lng = math.Copysign(180-rng.Float64()*0.1, c.Lng)
		case 1:
			c.Lat = math.Copysign(90-rng.Float64()*0.1, c.Lat)
		}
		circle := around(c, math.Pow(10, 7.3*rng.Float64()))
		p := geo.LatLng{
			Lat: max(-90, min(90, c.Lat+circle.Radius/1e5*(rng.Float64()-0.5))),
			Lng: c.Lng + circle.Radius/1e5*(rng.Float64()-0.5),
		}
		if p.Lng > 180 {
			p.Lng = math.Mod(p.Lng+180, 360) - 180
		} else if p.Lng < -180 {
			p.Lng = math.Mod(p.Lng-180, 360) + 180
		}
		if rng.IntN(8) == 0 {
			p.Lng = 180
		}
		if p.Lng == -180 {
			p.Lng = 180
		}
		if !circle.Contains(p) {
			continue
		}
		inside++
		n, narrowed := 0, 0
		for _, r := range boxes(circle) {
			if p.Lat >= r.South && p.Lat <= r.North && p.Lng >= r.West && p.Lng <= r.East {
				n++
			}
			for _, r := range narrow(r) {
				if r.East-r.West > maxBoxWidth+1e-9 {
					t.Fatalf("%v is wider than %v degrees", r, maxBoxWidth)
				}
				if p.Lat >= r.South && p.Lat <= r.North && p.Lng >= r.West && p.Lng <= r.East {
					narrowed++
				}
			}
		}
		if n != 1 || narrowed != 1 {
			t.Fatalf("%v in %v: is in %d boxes and %d narrow ones, want 1 of each", p, circle, n, narrowed)
		}
	}
	if inside < 2000 {
		t.Fatalf("only %d points were inside", inside)
	}
}

func TestHash(t *testing.T) {
	// About the part that was asked for, for ids that differ in their last digits only,
	// and another part with another seed.
	const n, part = 20_000, 0.1
	below := uint64(float64(part) * (1 << 63) * 2)
	both, one := 0, 0
	for i := range n {
		id := []byte(fmt.Sprint(1_000_000 + i))
		a, b := hash(1, id) < below, hash(2, id) < below
		if a {
			one++
		}
		if a && b {
			both++
		}
	}
	if one < 1800 || one > 2200 {
		t.Errorf("got %d of %d, want about a tenth", one, n)
	}
	if both < 120 || both > 280 {
		t.Errorf("two seeds have %d of %d in common, want about a hundredth", both, n)
	}
}
