-- +goose Up
-- The slots of a user are numbered, so that two nodes at once cannot give him one
-- alert more than he may have.
CREATE TABLE IF NOT EXISTS alert (
  id         BIGINT        NOT NULL,
  owner      VARCHAR(128)  NOT NULL,
  slot       TINYINT       NOT NULL,
  lat        DOUBLE        NOT NULL,
  lng        DOUBLE        NOT NULL,
  radius     DOUBLE        NOT NULL, -- metres
  categories VARCHAR(1400) NOT NULL, -- lines; empty: all
  min_pay    BIGINT        NOT NULL,
  employer   VARCHAR(200)  NOT NULL,
  created    BIGINT        NOT NULL, -- milliseconds since 1970, UTC
  PRIMARY KEY (id),
  UNIQUE KEY owner_slot (owner, slot)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_bin;

-- +goose Down
DROP TABLE IF EXISTS alert;
