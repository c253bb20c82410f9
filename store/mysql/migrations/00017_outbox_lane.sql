-- +goose Up
-- What keeps its order: the messages of a lane are delivered one after the other. What alerts
-- tell has no lane, since a job can concern thousands, and neither waits for them.
SET @change = IF((SELECT COUNT(*) FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'outbox' AND column_name = 'lane') > 0, 'DO 0',
  'ALTER TABLE outbox
    ADD COLUMN lane BIGINT GENERATED ALWAYS AS (IF(action = ''opened'', NULL, job)) VIRTUAL,
    ADD KEY lane_state (lane, state, id)');
PREPARE changing FROM @change;
EXECUTE changing;
DEALLOCATE PREPARE changing;

-- +goose Down
SET @change = IF((SELECT COUNT(*) FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'outbox' AND column_name = 'lane') = 0, 'DO 0',
  'ALTER TABLE outbox DROP KEY lane_state, DROP COLUMN lane');
PREPARE changing FROM @change;
EXECUTE changing;
DEALLOCATE PREPARE changing;
