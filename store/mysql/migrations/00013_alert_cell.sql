-- +goose Up
-- The cells of each alert's circle. They are disjoint: a place is in at most one of
-- an alert's.
CREATE TABLE IF NOT EXISTS alert_cell (
  cell  BIGINT NOT NULL,
  alert BIGINT NOT NULL,
  PRIMARY KEY (cell, alert),
  KEY alert (alert)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS alert_cell;
