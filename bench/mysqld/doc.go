// Package mysqld starts a throwaway MySQL server in a container: for the laboratory,
// and for tests through testdata/testdb. It is not for servers that outlive the
// program, and creates no tables.
//
// [Start] runs the image in NEARJOB_MYSQL_IMAGE or, if that is unset, the first of
// these that can be had: mysql:9.7 in the local store; an image that an earlier run
// built; mysql:9.7 from the registry; an image built from Debian's packages, for
// machines that reach a Debian mirror but no registry. An image that was asked for
// by name is never replaced by another one.
//
// testcontainers-go (MIT, maintained) finds the Docker daemon of every usual
// installation and waits until the server answers. The moby client beside it, which
// it uses itself, does what it has no call for: importing an image.
//
// # Known limits
//
//   - Building the image needs Linux, root, a Debian machine whose apt sources
//     name a mirror that carries unstable, and about a minute. Mirrors that need
//     apt's auth.conf or a transport other than http, https or file are not used.
//   - The built image holds the MySQL of Debian unstable on the day of the
//     build, and is reused until it is removed (docker rmi nearjob/mysql-debian:sid).
//   - A program that is killed with SIGKILL leaves its container until the next
//     Start on the same machine sweeps it.
//   - Outside Linux and the BSDs there are no file locks: leftovers are not swept.
package mysqld

// EnvImage names the image that [Start] runs.
const EnvImage = "NEARJOB_MYSQL_IMAGE"
