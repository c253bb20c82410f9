package mysqld

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// Labels of our containers. A container is swept if it was started on this
// host and no living process holds its lock.
const (
	labelRun  = "nearjob.mysqld.run"
	labelHost = "nearjob.mysqld.host"
	labelLock = "nearjob.mysqld.lock"
)

const (
	mysqlPort      = "3306/tcp"
	startupTimeout = 2 * time.Minute
	cleanupTimeout = 30 * time.Second
	dialTimeout    = 2 * time.Second
)

// mysqldFlags suit tests and measurements on a small machine. What a crash may lose
// (innodb_flush_log_at_trx_commit, sync_binlog) is as in production.
var mysqldFlags = []string{
	"--innodb-buffer-pool-size=1G",
	"--max-connections=300",
	"--mysqlx=OFF",
	"--skip-name-resolve",
}

// A Server is a MySQL server in a container. Its methods are safe for
// concurrent use.
type Server struct {
	cfg    *mysql.Config
	docker *testcontainers.DockerClient
	ctr    *testcontainers.DockerContainer
	run    string
	lock   *fileLock

	close sync.Once
	err   error // of the first Close
}

// Start starts a server and returns when it answers. It first removes the
// containers of runs that died. What it does, it tells log, one line each; log
// may be nil. The caller must Close the server, also when ctx ends: ctx bounds
// only the start. On an error nothing is left behind.
//
// Start sets two environment variables that testcontainers reads, unless they
// are set: TESTCONTAINERS_RYUK_DISABLED if there is no Ryuk image, and
// TESTCONTAINERS_HOST_OVERRIDE if /.dockerenv is a false trace of a container.
func Start(ctx context.Context, log io.Writer) (_ *Server, err error) {
	logf := func(format string, args ...any) {
		if log != nil {
			fmt.Fprintf(log, "mysqld: "+format+"\n", args...)
		}
	}
	if err := disableRyuk(ctx); err != nil {
		return nil, err
	}
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, dockerError(err)
	}
	info, err := docker.Client.Info(ctx, client.InfoOptions{})
	if err != nil {
		return nil, errors.Join(dockerError(err), docker.Close())
	}
	hostname, err := os.Hostname()
	if err != nil {
		return nil, errors.Join(err, docker.Close())
	}
	sameHost := info.Info.Name == hostname
	if err := overrideHost(sameHost); err != nil {
		return nil, errors.Join(err, docker.Close())
	}
	locks, err := lockDir()
	if err != nil {
		return nil, errors.Join(err, docker.Close())
	}
	if err := sweep(ctx, docker, hostname, locks, logf); err != nil {
		logf("warning: containers of earlier runs may be left: %v", err)
	}

	s := &Server{docker: docker, run: randomHex(8)}
	defer func() {
		if err != nil {
			// ctx may be why we are here.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
			defer cancel()
			err = errors.Join(err, s.Close(ctx))
		}
	}()
	image, err := ensureImage(ctx, docker.Client, locks, logf)
	if err != nil {
		return nil, err
	}
	if s.lock, err = lockFile(ctx, filepath.Join(locks, "run-"+s.run+".lock"), nil); err != nil {
		return nil, err
	}

	began := time.Now()
	s.cfg = mysql.NewConfig()
	s.cfg.User, s.cfg.Passwd, s.cfg.Net, s.cfg.ParseTime = "root", randomHex(16), "tcp", true
	at := func(host, port string) *mysql.Config {
		cfg := s.cfg.Clone()
		cfg.Addr = net.JoinHostPort(host, port)
		return cfg
	}
	s.ctr, err = testcontainers.Run(ctx, image,
		testcontainers.WithLogger(quiet{}),
		testcontainers.WithName("nearjob-mysqld-"+s.run),
		testcontainers.WithLabels(map[string]string{
			labelRun: s.run, labelHost: hostname, labelLock: s.lock.f.Name(),
		}),
		testcontainers.WithEnv(map[string]string{"MYSQL_ROOT_PASSWORD": s.cfg.Passwd}),
		testcontainers.WithCmd(mysqldFlags...),
		testcontainers.WithExposedPorts(mysqlPort),
		testcontainers.WithHostConfigModifier(func(hc *container.HostConfig) {
			if sameHost { // else the port is needed from outside
				hc.PortBindings = network.PortMap{network.MustParsePort(mysqlPort): {
					{HostIP: netip.AddrFrom4([4]byte{127, 0, 0, 1}), HostPort: "0"},
				}}
			}
		}),
		// Not wait.ForLog: what the server prints differs between builds.
		testcontainers.WithWaitStrategyAndDeadline(startupTimeout,
			wait.ForSQL(mysqlPort, "mysql", func(host string, port network.Port) string {
				return at(host, port.Port()).FormatDSN()
			}).WithStartupTimeout(startupTimeout)),
	)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("MySQL did not start from image %s: %w%s", image, err, s.lastLog(ctx))
	}

	// Docker's port proxy halves the throughput, so the container's own address
	// is better where it can be reached. The password tells that the server there is ours.
	var version string
	if ip, err := s.ctr.ContainerIP(ctx); err == nil && ip != "" {
		direct := at(ip, network.MustParsePort(mysqlPort).Port())
		direct.Timeout = dialTimeout
		if version, err = Ping(ctx, direct); err == nil {
			s.cfg.Addr = direct.Addr
		}
	}
	if s.cfg.Addr == "" {
		host, err := s.ctr.Host(ctx)
		if err != nil {
			return nil, fmt.Errorf("find the server's address: %w", err)
		}
		port, err := s.ctr.MappedPort(ctx, mysqlPort)
		if err != nil {
			return nil, fmt.Errorf("find the server's address: %w", err)
		}
		mapped := at(host, port.Port())
		if version, err = Ping(ctx, mapped); err != nil {
			return nil, fmt.Errorf("reach the server at %s: %w", mapped.Addr, err)
		}
		s.cfg.Addr = mapped.Addr
	}
	logf("MySQL %s from %s is ready at %s after %.1f s", version, image, s.cfg.Addr, time.Since(began).Seconds())
	return s, nil
}

// DSN returns the address of a schema in the form of the driver, for root, with
// parseTime. The schema need not exist; "" names the server alone.
func (s *Server) DSN(schema string) string {
	cfg := s.cfg.Clone()
	cfg.DBName = schema
	return cfg.FormatDSN()
}

// URL returns the same address as mysql://root:password@host:port/schema.
func (s *Server) URL(schema string) string {
	cfg := s.cfg.Clone()
	cfg.DBName = schema
	u, err := URL(cfg)
	if err != nil {
		panic(err) // Start always sets a TCP address
	}
	return u
}

// Close removes the container and its data. Later calls return the result of
// the first.
func (s *Server) Close(ctx context.Context) error {
	s.close.Do(func() {
		var errs []error
		if s.ctr != nil {
			// The data is thrown away: no reason to wait for an orderly shutdown.
			// Whether the container is gone, we look below.
			_ = s.ctr.Terminate(ctx, testcontainers.StopTimeout(0))
		}
		if s.lock != nil {
			// Also what a start that was interrupted left without telling us.
			errs = append(errs, removeContainers(ctx, s.docker, client.Filters{}.Add("label", labelRun+"="+s.run), nil))
			errs = append(errs, s.lock.remove())
		}
		errs = append(errs, s.docker.Close())
		if err := errors.Join(errs...); err != nil {
			s.err = fmt.Errorf("stop the test server (see docker ps -a --filter label=%s=%s): %w", labelRun, s.run, err)
		}
	})
	return s.err
}

// lastLog returns the end of what the container printed, to be put behind an error.
func (s *Server) lastLog(ctx context.Context) string {
	if s.ctr == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	r, err := s.ctr.Logs(ctx)
	if err != nil {
		return ""
	}
	defer r.Close()
	data, _ := io.ReadAll(r) // what could be read is better than nothing
	return tail(data, 15)
}

// tail returns the last n lines of data, indented, with a line break before
// each, or "" if there are none.
func tail(data []byte, n int) string {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return ""
	}
	lines := strings.Split(string(data), "\n")
	return "\n\t" + strings.Join(lines[max(0, len(lines)-n):], "\n\t")
}

// sweep removes the containers of runs on this host whose process is dead, and
// their lock files where they are in our own folder.
func sweep(ctx context.Context, docker *testcontainers.DockerClient, hostname, locks string, logf func(string, ...any)) error {
	return removeContainers(ctx, docker, client.Filters{}.Add("label", labelRun, labelHost+"="+hostname),
		func(c container.Summary) bool {
			lock := c.Labels[labelLock]
			if lock == "" || holderAlive(lock) {
				return false
			}
			logf("removing the container of run %s, whose process is dead", c.Labels[labelRun])
			if filepath.Dir(lock) == locks {
				_ = os.Remove(lock) // an empty file that stays does no harm
			}
			return true
		})
}

// removeContainers removes the containers that pass the filters and, if it is
// not nil, the predicate, with their anonymous volumes.
func removeContainers(ctx context.Context, docker *testcontainers.DockerClient, filters client.Filters, remove func(container.Summary) bool) error {
	list, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range list.Items {
		if remove != nil && !remove(c) {
			continue
		}
		_, err := docker.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil && !isNotFound(err) { // another sweeper may be faster
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// disableRyuk turns off testcontainers' own sweeper if its image is not here,
// because without a registry the start would fail over it. It must run before
// testcontainers reads its configuration, which it does once.
func disableRyuk(ctx context.Context) error {
	const env = "TESTCONTAINERS_RYUK_DISABLED"
	if os.Getenv(env) != "" {
		return nil
	}
	// Not testcontainers' client, which would read the configuration. Where Docker
	// is not at the standard place, Ryuk is off, and our own sweep is enough.
	if docker, err := client.New(client.FromEnv); err == nil {
		defer docker.Close()
		//lint:ignore SA1019 the only way to learn the name of the image
		if _, err := docker.ImageInspect(ctx, testcontainers.ReaperDefaultImage); err == nil {
			return nil
		}
	}
	return os.Setenv(env, "true")
}

// overrideHost corrects testcontainers where a file /.dockerenv makes it look
// for published ports on the bridge's gateway although the Docker daemon runs
// on this very host. In a real container the daemon has another host's name.
func overrideHost(sameHost bool) error {
	const env = "TESTCONTAINERS_HOST_OVERRIDE"
	if _, err := os.Stat("/.dockerenv"); err != nil || !sameHost || os.Getenv(env) != "" {
		return nil
	}
	return os.Setenv(env, "localhost")
}

// dockerError says what to do about a Docker daemon that does not answer.
func dockerError(err error) error {
	return fmt.Errorf("no Docker: %w (start the Docker daemon, or name a MySQL server that is there already)", err)
}

// quiet drops what testcontainers tells about each step.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// Ping reports whether the server of cfg answers and accepts the account,
// and the version of the server.
func Ping(ctx context.Context, cfg *mysql.Config) (version string, err error) {
	cfg = cfg.Clone()
	cfg.DBName = ""
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return "", err
	}
	db := sql.OpenDB(connector)
	err = db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version)
	return version, errors.Join(err, db.Close())
}

// randomHex returns 2n random hexadecimal digits.
func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails, by its documentation
	return hex.EncodeToString(b)
}
