-- +goose Up
CREATE TABLE alert (
    id         INTEGER PRIMARY KEY,
    owner      TEXT    NOT NULL,
    lat        REAL    NOT NULL,
    lng        REAL    NOT NULL,
    radius     REAL    NOT NULL, -- metres
    categories TEXT    NOT NULL, -- lines; empty: all
    min_pay    INTEGER NOT NULL,
    employer   TEXT    NOT NULL,
    created    INTEGER NOT NULL  -- milliseconds since 1970, UTC
) STRICT;
CREATE INDEX alert_owner ON alert (owner, id);

-- The cells of each alert's circle. They are disjoint: a place is in at most one of
-- an alert's.
CREATE TABLE alert_cell (
    cell  INTEGER NOT NULL,
    alert INTEGER NOT NULL,
    PRIMARY KEY (cell, alert)
) STRICT, WITHOUT ROWID;
CREATE INDEX alert_cell_alert ON alert_cell (alert);

-- Which alert has told of which job, so that none does so twice. It stays when the
-- alert is deleted.
CREATE TABLE alert_hit (
    job   INTEGER NOT NULL,
    alert INTEGER NOT NULL,
    owner TEXT    NOT NULL,
    event INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    PRIMARY KEY (job, alert)
) STRICT, WITHOUT ROWID;
CREATE INDEX alert_hit_owner ON alert_hit (job, owner);
CREATE INDEX alert_hit_at ON alert_hit (at);

-- The jobs that have opened and were not yet matched with the alerts. The trigger is
-- in the transaction of whatever writes the event.
CREATE TABLE alert_opening (
    event INTEGER PRIMARY KEY,
    job   INTEGER NOT NULL,
    at    INTEGER NOT NULL
) STRICT;
-- +goose StatementBegin
CREATE TRIGGER job_event_opening AFTER INSERT ON job_event WHEN NEW.to_job = 'open' AND NEW.from_job <> 'open'
BEGIN
    INSERT INTO alert_opening (event, job, at) VALUES (NEW.id, NEW.job, NEW.at);
END;
-- +goose StatementEnd

-- What keeps its order: the messages of a lane are delivered one after the other. What alerts
-- tell has no lane, since a job can concern thousands, and neither waits for them.
ALTER TABLE outbox ADD COLUMN lane INTEGER GENERATED ALWAYS AS (CASE WHEN action = 'opened' THEN NULL ELSE job END) VIRTUAL;
CREATE INDEX outbox_lane ON outbox (lane, state, id);

-- +goose Down
DROP INDEX outbox_lane;
ALTER TABLE outbox DROP COLUMN lane;
DROP TRIGGER job_event_opening;
DROP TABLE alert_opening;
DROP TABLE alert_hit;
DROP TABLE alert_cell;
DROP TABLE alert;
