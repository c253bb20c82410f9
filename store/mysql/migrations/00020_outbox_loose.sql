-- +goose Up
-- What is claimed first: the messages that have an order. What alerts tell, thousands of a
-- job, comes after them.
SET @change = IF((SELECT COUNT(*) FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'outbox' AND column_name = 'loose') > 0, 'DO 0',
  'ALTER TABLE outbox
    ADD COLUMN loose BOOLEAN GENERATED ALWAYS AS (action = ''opened'') VIRTUAL,
    ADD KEY state_loose_due (state, loose, due)');
PREPARE changing FROM @change;
EXECUTE changing;
DEALLOCATE PREPARE changing;

-- +goose Down
SET @change = IF((SELECT COUNT(*) FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'outbox' AND column_name = 'loose') = 0, 'DO 0',
  'ALTER TABLE outbox DROP KEY state_loose_due, DROP COLUMN loose');
PREPARE changing FROM @change;
EXECUTE changing;
DEALLOCATE PREPARE changing;
