-- +goose Up
-- Devices, by the SHA-256 of their token, which is longer than a key may be.
CREATE TABLE IF NOT EXISTS device (
  id      BINARY(32)   NOT NULL,
  token   TEXT         NOT NULL,
  owner   VARCHAR(128) NOT NULL,
  created BIGINT       NOT NULL,
  PRIMARY KEY (id),
  KEY owner_created (owner, created)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_bin;

-- +goose Down
DROP TABLE IF EXISTS device;
