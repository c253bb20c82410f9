package mysqld

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseDSN(t *testing.T) {
	tests := []struct {
		name   string
		in     string
		driver string // DriverDSN(in)
		url    string // URL(ParseDSN(in))
	}{
		{"url", "mysql://root:dev@127.0.0.1:33306/jobs", "root:dev@tcp(127.0.0.1:33306)/jobs", "mysql://root:dev@127.0.0.1:33306/jobs"},
		{"url without schema", "mysql://root:dev@db:33306", "root:dev@tcp(db:33306)/", "mysql://root:dev@db:33306/"},
		{"url without port", "mysql://root:dev@db/jobs", "root:dev@tcp(db:3306)/jobs", "mysql://root:dev@db:3306/jobs"},
		{"url without password", "mysql://root@db/", "root@tcp(db:3306)/", "mysql://root@db:3306/"},
		{"url with IPv6", "mysql://u:p@[::1]:3307/jobs", "u:p@tcp([::1]:3307)/jobs", "mysql://u:p@[::1]:3307/jobs"},
		{"url with escapes", "mysql://u%40x:p%40%2F%3A%3F%23@db:1/j", "u@x:p@/:?#@tcp(db:1)/j", "mysql://u%40x:p%40%2F%3A%3F%23@db:1/j"},
		{"url with parameters", "mysql://u:p@db:1/j?timeout=5s&parseTime=true", "u:p@tcp(db:1)/j?parseTime=true&timeout=5s", "mysql://u:p@db:1/j?timeout=5s"},
		{"driver", "root:dev@tcp(127.0.0.1:33306)/", "root:dev@tcp(127.0.0.1:33306)/", "mysql://root:dev@127.0.0.1:33306/"},
		{"driver with defaults", "root@/jobs", "root@tcp(127.0.0.1:3306)/jobs", "mysql://root@127.0.0.1:3306/jobs"},
		{"driver with odd password", "u:p@/:?#@tcp(db:1)/j", "u:p@/:?#@tcp(db:1)/j", "mysql://u:p%40%2F%3A%3F%23@db:1/j"},
		{"driver with parameters", "u:p@tcp(db:1)/j?parseTime=true&loc=Local&sql_mode=%27%27", "u:p@tcp(db:1)/j?loc=Local&parseTime=true&sql_mode=%27%27", "mysql://u:p@db:1/j?sql_mode=%27%27"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			driver, err := DriverDSN(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if driver != tt.driver {
				t.Errorf("DriverDSN: got %s, want %s", driver, tt.driver)
			}
			cfg, err := ParseDSN(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			url, err := URL(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if url != tt.url {
				t.Errorf("URL: got %s, want %s", url, tt.url)
			}
			again, err := ParseDSN(url)
			if err != nil {
				t.Fatalf("URL made what ParseDSN refuses: %v", err)
			}
			if again.User != cfg.User || again.Passwd != cfg.Passwd || again.Addr != cfg.Addr || again.DBName != cfg.DBName {
				t.Errorf("round trip: got %s, want %s", again.FormatDSN(), cfg.FormatDSN())
			}
		})
	}
}

func TestParseDSNRefuses(t *testing.T) {
	const secret = "s3cret"
	for _, in := range []string{
		"",
		"mysql://",
		"mysql:///jobs",
		"mysql://u:" + secret + "@:3306/jobs",
		"mysql://u:" + secret + "@db:port/jobs",
		"mysql://u:" + secret + "/x@db:3306/jobs",
		"mysql://u:%zz" + secret + "@db:3306/jobs",
		"mysql://u:" + secret + "@db:3306/jobs/more",
		"mysql://u:" + secret + "@db:3306/jobs#more",
		"mysql://u:" + secret + "@db:3306/jobs?parseTime=" + secret,
		"postgres://u:" + secret + "@db:5432/jobs",
		"u:" + secret + "@tcp(db:3306/jobs",
		"u:p@" + secret + "@db/jobs",
		"u:" + secret + "@tcp(db:3306)",
		"u:" + secret + "@tcp(db:3306)/jobs?parseTime=" + secret,
	} {
		cfg, err := ParseDSN(in)
		if err == nil {
			t.Errorf("%q: got %s, want an error", in, cfg.FormatDSN())
			continue
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: the error shows the password: %v", in, err)
		}
	}
}

func TestURLRefusesSocketFile(t *testing.T) {
	cfg, err := ParseDSN("root:dev@unix(/run/mysqld/mysqld.sock)/jobs")
	if err != nil {
		t.Fatal(err)
	}
	if url, err := URL(cfg); err == nil {
		t.Errorf("got %s, want an error", url)
	}
}

func FuzzParseDSN(f *testing.F) {
	// go test ./bench/mysqld -fuzz FuzzParseDSN -fuzztime 30s
	for _, seed := range []string{"mysql://u:p@db:1/j?timeout=5s", "u:p@tcp(db:1)/j", "mysql://u%40x:p%2F@[::1]/", "root@/", "@tcp(:1)/a%2Fb", "mysql://a@b/%2f"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		cfg, err := ParseDSN(in)
		if err != nil {
			return
		}
		url, err := URL(cfg)
		if err != nil {
			return
		}
		again, err := ParseDSN(url)
		if err != nil {
			t.Skip("a host that the driver takes and an address cannot hold")
		}
		if again.User != cfg.User || again.Passwd != cfg.Passwd || again.DBName != cfg.DBName {
			t.Errorf("%q became %q", in, url)
		}
	})
}

func ExampleDriverDSN() {
	dsn, err := DriverDSN("mysql://app:s%2Fw@127.0.0.1:3306/jobs")
	if err != nil {
		panic(err)
	}
	fmt.Println(dsn)
	// Output: app:s/w@tcp(127.0.0.1:3306)/jobs
}
