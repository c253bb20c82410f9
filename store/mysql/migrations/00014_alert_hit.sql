-- +goose Up
-- Which alert has told of which job, so that none does so twice. It stays when the
-- alert is deleted.
CREATE TABLE IF NOT EXISTS alert_hit (
  job   BIGINT       NOT NULL,
  alert BIGINT       NOT NULL,
  owner VARCHAR(128) NOT NULL,
  event BIGINT       NOT NULL,
  at    BIGINT       NOT NULL,
  PRIMARY KEY (job, alert),
  KEY job_owner (job, owner),
  KEY at (at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_bin;

-- +goose Down
DROP TABLE IF EXISTS alert_hit;
