-- +goose Up
CREATE TABLE IF NOT EXISTS webhook (
  id       BIGINT        NOT NULL,
  owner    VARCHAR(128)  NOT NULL,
  url      VARCHAR(2000) NOT NULL,
  secret   VARCHAR(200)  NOT NULL,
  created  BIGINT        NOT NULL,
  disabled VARCHAR(500)  NOT NULL,
  PRIMARY KEY (id),
  KEY owner_id (owner, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_bin;

-- +goose Down
DROP TABLE IF EXISTS webhook;
