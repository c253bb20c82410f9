-- +goose Up
-- A job's history. The primary key keeps it without a fork.
CREATE TABLE IF NOT EXISTS job_event (
  job         BIGINT        NOT NULL,
  seq         BIGINT        NOT NULL,
  id          BIGINT        NOT NULL,
  application BIGINT        NOT NULL, -- 0: none
  action      VARCHAR(16)   NOT NULL,
  role        VARCHAR(16)   NOT NULL,
  actor       VARCHAR(128)  NOT NULL,
  at          BIGINT        NOT NULL,
  from_job    VARCHAR(16)   NOT NULL,
  to_job      VARCHAR(16)   NOT NULL,
  from_app    VARCHAR(16)   NOT NULL,
  to_app      VARCHAR(16)   NOT NULL,
  reason      VARCHAR(1000) NOT NULL,
  told        INT           NOT NULL,
  PRIMARY KEY (job, seq),
  UNIQUE KEY id (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_bin;

-- +goose Down
DROP TABLE IF EXISTS job_event;
