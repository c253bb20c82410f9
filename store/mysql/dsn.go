package mysql

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// errDSN carries no part of its input and no cause: both may hold a password.
var errDSN = errors.New("the database address is not of the form mysql://user:password@host:port/schema?param=value " +
	"(percent-encode special characters in the user and password)")

// parseDSN reads an address of the form mysql://user:password@host:port/schema.
// The port is 3306 by default. Parameters are tls (true, false, skip-verify,
// preferred) and timeout (for connecting, as 5s); any other is refused, so that
// an address cannot switch on what makes SQL injection or reading of local files
// worse. Errors never show the address.
func parseDSN(dsn string) (*mysql.Config, error) {
	cfg, err := DriverConfig(dsn)
	if err != nil {
		return nil, err
	}
	if cfg.DBName == "" {
		return nil, errors.New("the database address names no schema: want mysql://user:password@host:port/schema")
	}
	return cfg, nil
}

// DriverConfig reads an address as [Open] does, except that the schema may be
// missing, for tools that need a connection of their own kind. Errors never show the
// address.
func DriverConfig(dsn string) (*mysql.Config, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "mysql" || u.Opaque != "" || u.Hostname() == "" || strings.ContainsAny(u.Hostname(), "[]") ||
		u.Fragment != "" || u.User.Username() == "" {
		return nil, errDSN
	}
	schema := strings.TrimPrefix(u.Path, "/")
	if strings.Contains(schema, "/") {
		return nil, errDSN
	}
	port := "3306"
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return nil, errDSN
		}
		port = p
	}
	params, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errDSN
	}
	cfg := mysql.NewConfig()
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.Net = "tcp"
	cfg.Addr = net.JoinHostPort(u.Hostname(), port)
	cfg.DBName = schema
	cfg.Timeout = 5 * time.Second
	for name, values := range params {
		if len(values) != 1 {
			return nil, fmt.Errorf("the parameter %.40q of the database address is given twice", name)
		}
		switch value := values[0]; name {
		case "tls":
			switch value {
			case "true", "false", "skip-verify", "preferred":
				cfg.TLSConfig = value
			default:
				return nil, fmt.Errorf("tls=%.40q in the database address is not true, false, skip-verify or preferred", value)
			}
		case "timeout":
			d, err := time.ParseDuration(value)
			if err != nil || d <= 0 {
				return nil, fmt.Errorf("timeout=%.40q in the database address is not a duration such as 5s", value)
			}
			cfg.Timeout = d
		default:
			return nil, fmt.Errorf("the database address has an unknown parameter %.40q: known are tls and timeout", name)
		}
	}
	return cfg, nil
}
