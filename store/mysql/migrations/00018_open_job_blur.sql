-- +goose Up
-- How the places in open_job are blurred, in one row: store.Blur's Key, empty for not at
-- all. Who writes places holds a shared lock on it.
CREATE TABLE IF NOT EXISTS open_job_blur (
  id         TINYINT     NOT NULL,
  blur       VARCHAR(64) NOT NULL,
  unfinished BOOLEAN     NOT NULL, -- some places are still as before
  PRIMARY KEY (id),
  CONSTRAINT open_job_blur_one CHECK (id = 1)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_bin;

-- +goose Down
DROP TABLE IF EXISTS open_job_blur;
