#!/bin/bash
# Entrypoint of the MySQL image that Nearjob builds from Debian's packages when
# no image can be pulled. It reads the variables of the official image that
# Nearjob's tests use: MYSQL_ROOT_PASSWORD (or MYSQL_ALLOW_EMPTY_PASSWORD),
# MYSQL_ROOT_HOST, MYSQL_DATABASE, MYSQL_USER and MYSQL_PASSWORD. It knows no
# *_FILE variables, no /docker-entrypoint-initdb.d and no time zone tables.
#
# Accounts are made while the data directory is initialised, so the server
# never listens with a password that is not yet set, and starts only once.
set -euo pipefail

datadir=/var/lib/mysql
umask 077

fail() {
	echo "entrypoint: $*" >&2
	exit 1
}

# string and ident print their argument as an SQL string and identifier.
string() {
	local s=${1//\\/\\\\}
	printf "'%s'" "${s//\'/\'\'}"
}

ident() {
	printf '`%s`' "${1//\`/\`\`}"
}

accounts() {
	local host=${MYSQL_ROOT_HOST:-%} password
	password=$(string "${MYSQL_ROOT_PASSWORD:-}")
	echo "ALTER USER 'root'@'localhost' IDENTIFIED BY $password;"
	if [[ $host != localhost ]]; then
		host=$(string "$host")
		echo "CREATE USER 'root'@$host IDENTIFIED BY $password;"
		echo "GRANT ALL ON *.* TO 'root'@$host WITH GRANT OPTION;"
	fi
	if [[ -n ${MYSQL_DATABASE:-} ]]; then
		echo "CREATE DATABASE IF NOT EXISTS $(ident "$MYSQL_DATABASE");"
	fi
	if [[ -n ${MYSQL_USER:-} ]]; then
		echo "CREATE USER $(string "$MYSQL_USER")@'%' IDENTIFIED BY $(string "$MYSQL_PASSWORD");"
		if [[ -n ${MYSQL_DATABASE:-} ]]; then
			# _ and % are wildcards in the database name of a GRANT.
			local db=${MYSQL_DATABASE//_/\\_}
			echo "GRANT ALL ON $(ident "${db//%/\\%}").* TO $(string "$MYSQL_USER")@'%';"
		fi
	fi
}

# "docker run IMAGE --flag" adds flags for mysqld; "docker run IMAGE bash" runs bash.
if [[ $# -eq 0 || $1 == -* ]]; then
	set -- mysqld "$@"
fi
if [[ $1 != mysqld ]]; then
	exec "$@"
fi

getent passwd mysql >/dev/null || useradd --system --user-group --home-dir "$datadir" --shell /usr/sbin/nologin mysql
for dir in "$datadir" /var/lib/mysql-files /run/mysqld; do
	mkdir -p "$dir"
	chown mysql:mysql "$dir"
done
chmod 755 /run/mysqld

if [[ ! -d $datadir/mysql ]]; then
	if [[ -z ${MYSQL_ROOT_PASSWORD:-} && -z ${MYSQL_ALLOW_EMPTY_PASSWORD:-} ]]; then
		fail "set MYSQL_ROOT_PASSWORD, or MYSQL_ALLOW_EMPTY_PASSWORD=1"
	fi
	if [[ ${MYSQL_USER:-} == root ]]; then
		fail "MYSQL_USER must not be root: use MYSQL_ROOT_PASSWORD"
	fi
	if [[ -n ${MYSQL_USER:-} && -z ${MYSQL_PASSWORD:-} ]]; then
		fail "MYSQL_USER needs MYSQL_PASSWORD"
	fi
	for name in MYSQL_ROOT_PASSWORD MYSQL_ROOT_HOST MYSQL_DATABASE MYSQL_USER MYSQL_PASSWORD; do
		# One statement is one line of the init file.
		if [[ ${!name:-} == *$'\n'* ]]; then
			fail "$name must not hold a line break"
		fi
	done
	init=/var/lib/mysql-files/init.sql
	accounts >"$init"
	chown mysql:mysql "$init"
	mysqld --no-defaults --initialize-insecure --user=mysql --datadir="$datadir" --init-file="$init" ||
		fail "mysqld could not initialise $datadir"
	rm -f "$init"
fi

shift
exec mysqld --user=mysql --datadir="$datadir" --socket=/run/mysqld/mysqld.sock \
	--secure-file-priv=/var/lib/mysql-files --character-set-server=utf8mb4 "$@"
