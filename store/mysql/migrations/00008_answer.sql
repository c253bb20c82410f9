-- +goose Up
-- The answers to requests that carry a key, by the SHA-256 of user, operation and
-- key. status is 0 while the request is being carried out.
CREATE TABLE IF NOT EXISTS answer (
  id          BINARY(32)   NOT NULL,
  body_hash   BINARY(32)   NOT NULL,
  token       BIGINT       NOT NULL,
  began       BIGINT       NOT NULL,
  until       BIGINT       NOT NULL, -- the end of the lease
  status      INT          NOT NULL,
  header      MEDIUMTEXT   NOT NULL, -- JSON
  body        MEDIUMBLOB   NOT NULL,
  PRIMARY KEY (id),
  KEY began (began)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_bin;

-- +goose Down
DROP TABLE IF EXISTS answer;
