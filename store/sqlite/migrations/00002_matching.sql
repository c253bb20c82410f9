-- +goose Up
ALTER TABLE job ADD COLUMN requester TEXT    NOT NULL DEFAULT '';
ALTER TABLE job ADD COLUMN version   INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN seq       INTEGER NOT NULL DEFAULT 0; -- of the last event
CREATE INDEX job_requester ON job (requester, id);
-- What the sweep looks for. Imported jobs are not in it: the next import may bring
-- them a later end.
CREATE INDEX job_sweep ON job (expires) WHERE state = 'open' AND requester <> '';

-- One row for each worker and job, clustered by job. There are no foreign keys,
-- here and below: each row is written with its job's, in the same transaction.
CREATE TABLE application (
    job         INTEGER NOT NULL,
    id          INTEGER NOT NULL UNIQUE,
    worker      TEXT    NOT NULL,
    state       TEXT    NOT NULL,
    message     TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    may_reapply INTEGER NOT NULL,
    created     INTEGER NOT NULL, -- milliseconds since 1970, UTC
    updated     INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    PRIMARY KEY (job, id),
    UNIQUE (job, worker)
) STRICT, WITHOUT ROWID;
CREATE INDEX application_state ON application (job, state);
CREATE INDEX application_worker ON application (worker, id);
-- The database refuses a second worker who holds a job.
CREATE UNIQUE INDEX application_held ON application (job) WHERE state IN ('accepted', 'started', 'finished', 'confirmed');

CREATE TABLE job_event (
    job         INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    id          INTEGER NOT NULL UNIQUE,
    application INTEGER NOT NULL, -- 0: none
    action      TEXT    NOT NULL,
    role        TEXT    NOT NULL,
    actor       TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    from_job    TEXT    NOT NULL,
    to_job      TEXT    NOT NULL,
    from_app    TEXT    NOT NULL,
    to_app      TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    told        INTEGER NOT NULL,
    PRIMARY KEY (job, seq)
) STRICT, WITHOUT ROWID;

-- AUTOINCREMENT: an id is not given again after the last row was pruned. due is
-- when a pending message may be claimed, the end of its lease while it is claimed,
-- and when it ended afterwards.
CREATE TABLE outbox (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    event       INTEGER NOT NULL,
    job         INTEGER NOT NULL,
    application INTEGER NOT NULL,
    recipient   TEXT    NOT NULL,
    role        TEXT    NOT NULL,
    action      TEXT    NOT NULL,
    actor       TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    title       TEXT    NOT NULL,
    job_state   TEXT    NOT NULL,
    note        TEXT    NOT NULL,
    state       TEXT    NOT NULL,
    attempts    INTEGER NOT NULL,
    due         INTEGER NOT NULL,
    node        TEXT    NOT NULL,
    last_error  TEXT    NOT NULL,
    UNIQUE (event, recipient)
) STRICT;
CREATE INDEX outbox_job ON outbox (job, state, id);
CREATE INDEX outbox_due ON outbox (state, due, job);
CREATE INDEX outbox_state ON outbox (state, id);
CREATE INDEX outbox_recipient ON outbox (recipient, id);

-- By the SHA-256 of user, operation and key. status is 0 while the request is being
-- carried out.
CREATE TABLE answer (
    id        BLOB    NOT NULL PRIMARY KEY,
    body_hash BLOB    NOT NULL,
    token     INTEGER NOT NULL,
    began     INTEGER NOT NULL,
    until     INTEGER NOT NULL, -- the end of the lease
    status    INTEGER NOT NULL,
    header    TEXT    NOT NULL, -- JSON
    body      BLOB    NOT NULL
) STRICT;
CREATE INDEX answer_began ON answer (began);

CREATE TABLE device (
    token   TEXT    NOT NULL PRIMARY KEY,
    owner   TEXT    NOT NULL,
    created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX device_owner ON device (owner, created);

CREATE TABLE webhook (
    id       INTEGER PRIMARY KEY,
    owner    TEXT    NOT NULL,
    url      TEXT    NOT NULL,
    secret   TEXT    NOT NULL,
    created  INTEGER NOT NULL,
    disabled TEXT    NOT NULL
) STRICT;
CREATE INDEX webhook_owner ON webhook (owner, id);

CREATE TABLE settings (
    owner    TEXT NOT NULL PRIMARY KEY,
    language TEXT NOT NULL,
    channels TEXT -- with commas; NULL: not chosen
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE settings;
DROP TABLE webhook;
DROP TABLE device;
DROP TABLE answer;
DROP TABLE outbox;
DROP TABLE job_event;
DROP TABLE application;
DROP INDEX job_sweep;
DROP INDEX job_requester;
ALTER TABLE job DROP COLUMN seq;
ALTER TABLE job DROP COLUMN version;
ALTER TABLE job DROP COLUMN requester;
