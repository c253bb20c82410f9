// Package scratch gives the laboratory schemas of its own on a MySQL server: it
// creates them, hands out connections to them, and drops them.
//
// All names start with [Prefix] and carry a random part, so that runs at the same
// time do not meet, and nothing that was there before is ever touched. It measures
// nothing; its neighbours are bench/lab, bench/experiment and bench/table, which do.
//
// Known limit: a run that is killed leaves its schemas. [Server.Leftovers] finds
// them; they are not dropped by themselves, since another run may be using them.
package scratch

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/nearjob/nearjob/store/mysql"
)

// Prefix starts the names of all scratch schemas.
const Prefix = "nearjob_lab_"

// dropTimeout bounds the drop of a schema, which also happens when a run's
// context has ended.
const dropTimeout = 30 * time.Second

// maxName leaves room in MySQL's 64 characters for the prefix and the random part.
const maxName = 30

var validName = regexp.MustCompile(`^[a-z0-9_]{1,30}$`)

// Server is a MySQL server to work on. Safe for concurrent use.
type Server struct {
	cfg *driver.Config
	url url.URL
	db  *sql.DB
}

// Open connects to the server of an address mysql://user:password@host:port, whose
// account must be allowed to create schemas. A schema in the address is ignored.
// Errors never show the address.
func Open(ctx context.Context, dsn string) (*Server, error) {
	cfg, err := mysql.DriverConfig(dsn)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, errors.New("the database address cannot be read") // it was, a moment ago
	}
	cfg.DBName = ""
	cfg.ConnectionAttributes = "program_name:nearjob-lab"
	cfg.Logger = &driver.NopLogger{} // a lost connection is an error of the statement
	s := &Server{cfg: cfg, url: *u}
	if s.db, err = pool(cfg); err != nil {
		return nil, err
	}
	if err := s.db.PingContext(ctx); err != nil {
		_ = s.db.Close()
		return nil, fmt.Errorf("connect to MySQL at %s: %w", cfg.Addr, err)
	}
	return s, nil
}

func pool(cfg *driver.Config) (*sql.DB, error) {
	c, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, errors.New("the database address cannot be used") // the cause may show a password
	}
	db := sql.OpenDB(c)
	db.SetConnMaxLifetime(3 * time.Minute) // well below any wait_timeout
	return db, nil
}

// DB returns a pool without a schema.
func (s *Server) DB() *sql.DB { return s.db }

// Config returns a copy of the driver's configuration, without a schema.
func (s *Server) Config() *driver.Config { return s.cfg.Clone() }

// Close ends the connections. Schemas stay as they are: see [Schema.Drop].
func (s *Server) Close() error { return s.db.Close() }

// Leftovers lists scratch schemas that are there: kept on purpose, in use by
// another run, or left by one that was killed.
func (s *Server) Leftovers(ctx context.Context) ([]string, error) {
	rows, err := s.db.QueryContext(ctx,
		"SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE LEFT(SCHEMA_NAME, ?) = ? ORDER BY SCHEMA_NAME",
		len(Prefix), Prefix)
	if err != nil {
		return nil, fmt.Errorf("list the scratch schemas: %w", err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// Schema is a schema of our own.
type Schema struct {
	Name string
	DSN  string // the address of the schema, as store/mysql takes it; it holds the password

	server *Server
	db     *sql.DB
}

// Schema creates a schema whose name says what it is for: 1 to 30 lower-case letters,
// digits and underscores.
func (s *Server) Schema(ctx context.Context, name string) (*Schema, error) {
	if !validName.MatchString(name) {
		return nil, fmt.Errorf("a scratch schema cannot be called %.40q: want 1 to %d lower-case letters, digits and underscores", name, maxName)
	}
	random := make([]byte, 6)
	rand.Read(random) // never fails, by its documentation
	full := Prefix + name + "_" + hex.EncodeToString(random)
	// The name is made of letters, digits and underscores: no quoting needed.
	if _, err := s.db.ExecContext(ctx, "CREATE DATABASE "+full+" CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci"); err != nil {
		return nil, fmt.Errorf("create the scratch schema %s: %w%s", full, err, hint(err))
	}
	u := s.url
	u.Path = "/" + full
	cfg := s.cfg.Clone()
	cfg.DBName = full
	db, err := pool(cfg)
	if err != nil {
		return nil, err
	}
	return &Schema{Name: full, DSN: u.String(), server: s, db: db}, nil
}

// accessDenied are MySQL's errors for an account that may not do something.
var accessDenied = map[uint16]bool{1044: true, 1045: true, 1142: true, 1227: true}

// hint says what to do about an account that may not create schemas.
func hint(err error) string {
	if my := new(driver.MySQLError); errors.As(err, &my) && accessDenied[my.Number] {
		return " (the laboratory works in schemas of its own: GRANT ALL ON `" + `nearjob\_lab\_` + "%`.* to the account, or let it start a server in a container)"
	}
	return ""
}

// DB returns a pool of connections to the schema.
func (s *Schema) DB() *sql.DB { return s.db }

// Release ends the connections and leaves the schema.
func (s *Schema) Release() error { return s.db.Close() }

// Drop ends the connections and drops the schema, also when ctx has ended.
// Dropping it again does nothing.
func (s *Schema) Drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
	defer cancel()
	err := s.db.Close()
	if _, dropErr := s.server.db.ExecContext(ctx, "DROP DATABASE IF EXISTS "+s.Name); dropErr != nil {
		err = errors.Join(err, fmt.Errorf("drop the scratch schema %s: %w", s.Name, dropErr))
	}
	return err
}
