-- +goose Up
-- One row for each worker and job, clustered by job: what a transition reads of the
-- others lies together. held makes the database refuse a second worker who holds
-- a job. There are no foreign keys, here and below: each row is written under the
-- lock of its job's row, in the same transaction, so that they would only add
-- a lookup and a shared lock to every insert.
CREATE TABLE IF NOT EXISTS application (
  job         BIGINT        NOT NULL,
  id          BIGINT        NOT NULL,
  worker      VARCHAR(128)  NOT NULL,
  state       VARCHAR(16)   NOT NULL,
  message     VARCHAR(2000) NOT NULL,
  reason      VARCHAR(1000) NOT NULL,
  may_reapply BOOLEAN       NOT NULL,
  created     BIGINT        NOT NULL, -- milliseconds since 1970, UTC
  updated     BIGINT        NOT NULL,
  version     BIGINT        NOT NULL,
  held        BIGINT GENERATED ALWAYS AS (IF(state IN ('accepted', 'started', 'finished', 'confirmed'), job, NULL)) VIRTUAL,
  PRIMARY KEY (job, id),
  UNIQUE KEY id (id),
  UNIQUE KEY job_worker (job, worker),
  UNIQUE KEY held (held),
  KEY job_state (job, state),
  KEY worker_id (worker, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_bin;

-- +goose Down
DROP TABLE IF EXISTS application;
