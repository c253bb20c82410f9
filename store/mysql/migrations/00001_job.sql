-- +goose Up
-- The whole record of every job. Texts compare byte by byte and without padding
-- (utf8mb4_0900_bin), as Go's == does.
CREATE TABLE IF NOT EXISTS job (
  id          BIGINT       NOT NULL,
  source      VARCHAR(64)  NOT NULL,
  source_id   VARCHAR(300) NOT NULL,
  title       VARCHAR(300) NOT NULL,
  description MEDIUMTEXT   NOT NULL,
  url         VARCHAR(2000) NOT NULL,
  category    VARCHAR(64)  NOT NULL,
  employer    VARCHAR(200) NOT NULL,
  pay         BIGINT       NOT NULL, -- hundredths
  currency    VARCHAR(3)   NOT NULL,
  pay_per     VARCHAR(5)   NOT NULL,
  lat         DOUBLE       NULL, -- no place: a remote job
  lng         DOUBLE       NULL,
  remote      BOOLEAN      NOT NULL,
  state       VARCHAR(16)  NOT NULL,
  posted      BIGINT       NOT NULL, -- milliseconds since 1970, UTC
  expires     BIGINT       NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY source_source_id (source, source_id),
  CONSTRAINT job_place CHECK ((lat IS NULL) = remote AND (lng IS NULL) = remote)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_bin;

-- +goose Down
DROP TABLE IF EXISTS job;
