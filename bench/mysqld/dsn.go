package mysqld

import (
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// scheme starts the form of a MySQL address that Nearjob's --db takes.
const scheme = "mysql://"

// The errors carry no part of their input and no cause: both may hold a password.
var (
	errURL = errors.New("not of the form mysql://user:password@host:port/schema?param=value " +
		"(percent-encode special characters in the password)")
	errDriverDSN = errors.New("not of the form user:password@tcp(host:port)/schema?param=value")
	errNotTCP    = errors.New("a mysql:// address needs a TCP host and port: use tcp(host:port), not a socket file")
)

// ParseDSN reads a MySQL address as mysql://user:password@host:port/schema or
// in the driver's own form, user:password@tcp(host:port)/schema. In both, the
// schema may be missing and the driver's parameters may follow a question mark.
// The port is 3306 by default. Errors never show the address.
func ParseDSN(dsn string) (*mysql.Config, error) {
	if !strings.HasPrefix(dsn, scheme) {
		// The driver takes "" for a server on this machine; here it is a mistake.
		if dsn == "" || strings.Contains(dsn, "://") {
			return nil, errDriverDSN
		}
		cfg, err := mysql.ParseDSN(dsn)
		if err != nil {
			return nil, errDriverDSN
		}
		return cfg, nil
	}
	u, err := url.Parse(dsn)
	if err != nil || u.Hostname() == "" || u.Fragment != "" {
		return nil, errURL
	}
	schema := strings.TrimPrefix(u.Path, "/")
	if strings.Contains(schema, "/") {
		return nil, errURL
	}
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	// The driver reads its parameters from its own form only.
	cfg, err := mysql.ParseDSN("tcp(" + net.JoinHostPort(u.Hostname(), port) + ")/?" + u.RawQuery)
	if err != nil {
		return nil, errURL
	}
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.DBName = schema
	return cfg, nil
}

// URL returns the mysql:// form of cfg. It leaves out parseTime and loc, which
// say how the Go driver presents times and are Nearjob's own business.
func URL(cfg *mysql.Config) (string, error) {
	if cfg.Net != "tcp" {
		return "", errNotTCP
	}
	host, port, err := net.SplitHostPort(cfg.Addr)
	if err != nil {
		return "", errNotTCP
	}
	u := url.URL{Scheme: "mysql", Host: net.JoinHostPort(host, port), Path: "/" + cfg.DBName}
	switch {
	case cfg.Passwd != "":
		u.User = url.UserPassword(cfg.User, cfg.Passwd)
	case cfg.User != "":
		u.User = url.User(cfg.User)
	}
	// What is left after the question mark are the parameters that differ from
	// the driver's defaults; a schema or password cannot hide a question mark there.
	rest := cfg.Clone()
	rest.User, rest.Passwd, rest.DBName = "", "", ""
	rest.ParseTime, rest.Loc = false, nil
	_, params, _ := strings.Cut(rest.FormatDSN(), "?")
	u.RawQuery = params
	return u.String(), nil
}

// DriverDSN converts either form of a MySQL address to the driver's own,
// for [database/sql.Open] with the driver "mysql".
func DriverDSN(dsn string) (string, error) {
	cfg, err := ParseDSN(dsn)
	if err != nil {
		return "", err
	}
	return cfg.FormatDSN(), nil
}
