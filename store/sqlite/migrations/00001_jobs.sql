-- +goose Up
CREATE TABLE job (
    id          INTEGER PRIMARY KEY,
    source      TEXT    NOT NULL,
    source_id   TEXT    NOT NULL,
    title       TEXT    NOT NULL,
    description TEXT    NOT NULL,
    url         TEXT    NOT NULL,
    category    TEXT    NOT NULL,
    employer    TEXT    NOT NULL,
    pay         INTEGER NOT NULL, -- hundredths
    currency    TEXT    NOT NULL,
    pay_per     TEXT    NOT NULL,
    lat         REAL,             -- NULL, as lng: remote
    lng         REAL,
    state       TEXT    NOT NULL,
    posted      INTEGER NOT NULL, -- milliseconds since 1970, UTC
    expires     INTEGER NOT NULL,
    UNIQUE (source, source_id),
    CHECK ((lat IS NULL) = (lng IS NULL))
) STRICT;

-- The search table: what can be found now. Neighbours on the ground are
-- neighbours in its B-tree.
CREATE TABLE open_job (
    id       INTEGER NOT NULL UNIQUE,
    lat      REAL    NOT NULL,
    lng      REAL    NOT NULL,
    s2       INTEGER NOT NULL,
    h3       INTEGER NOT NULL,
    geohash  INTEGER NOT NULL,
    category TEXT    NOT NULL,
    employer TEXT    NOT NULL,
    pay      INTEGER NOT NULL,
    posted   INTEGER NOT NULL,
    expires  INTEGER NOT NULL,
    PRIMARY KEY (s2, id)
) STRICT, WITHOUT ROWID;

-- Each index answers by itself all that does not ask for the employer.
CREATE INDEX open_job_lat_lng ON open_job (lat, lng, id, expires, pay, posted, category);
CREATE INDEX open_job_h3      ON open_job (h3, id, lat, lng, expires, pay, posted, category);
CREATE INDEX open_job_geohash ON open_job (geohash, id, lat, lng, expires, pay, posted, category);

-- The R*Tree keeps its boxes in 32-bit floats, rounded outward: it finds a few
-- rows too many, which open_job corrects. Auxiliary columns with the whole row
-- would be no faster than that join.
CREATE VIRTUAL TABLE open_job_rtree USING rtree (job, lat0, lat1, lng0, lng1);

CREATE TABLE open_remote_job (
    id       INTEGER PRIMARY KEY,
    category TEXT    NOT NULL,
    employer TEXT    NOT NULL,
    pay      INTEGER NOT NULL,
    posted   INTEGER NOT NULL,
    expires  INTEGER NOT NULL
) STRICT;
CREATE INDEX open_remote_job_posted ON open_remote_job (posted, id, expires, pay, category);

-- +goose Down
DROP TABLE open_remote_job;
DROP TABLE open_job_rtree;
DROP TABLE open_job;
DROP TABLE job;
