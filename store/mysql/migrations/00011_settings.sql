-- +goose Up
CREATE TABLE IF NOT EXISTS settings (
  owner    VARCHAR(128) NOT NULL,
  language VARCHAR(8)   NOT NULL,
  channels VARCHAR(100) NULL, -- with commas; NULL: not chosen
  PRIMARY KEY (owner)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_bin;

-- +goose Down
DROP TABLE IF EXISTS settings;
