-- +goose Up
-- The open jobs that have no place, by id or by posting time.
CREATE TABLE IF NOT EXISTS open_remote_job (
  id       BIGINT       NOT NULL,
  category VARCHAR(64)  NOT NULL,
  employer VARCHAR(200) NOT NULL,
  pay      BIGINT       NOT NULL,
  posted   BIGINT       NOT NULL,
  expires  BIGINT       NOT NULL,
  PRIMARY KEY (id),
  KEY posted_id (posted, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_bin;

-- +goose Down
DROP TABLE IF EXISTS open_remote_job;
