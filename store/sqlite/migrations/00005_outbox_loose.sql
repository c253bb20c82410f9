-- +goose Up
-- What is claimed first: the messages that have an order. What alerts tell, thousands of a
-- job, comes after them.
ALTER TABLE outbox ADD COLUMN loose INTEGER GENERATED ALWAYS AS (action = 'opened') VIRTUAL;
CREATE INDEX outbox_loose ON outbox (state, loose, due);

-- +goose Down
DROP INDEX outbox_loose;
ALTER TABLE outbox DROP COLUMN loose;
