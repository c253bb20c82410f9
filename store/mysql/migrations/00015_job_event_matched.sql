-- +goose Up
-- Whether the alerts were matched with a job that an event has opened. unmatched
-- is what is still to do. What has happened before there were alerts counts as
-- matched: the next migration changes the default for what comes.
SET @change = IF((SELECT COUNT(*) FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'job_event' AND column_name = 'matched') > 0, 'DO 0',
  'ALTER TABLE job_event
    ADD COLUMN matched   BOOLEAN NOT NULL DEFAULT TRUE,
    ADD COLUMN unmatched BIGINT GENERATED ALWAYS AS (IF(to_job = ''open'' AND from_job <> ''open'' AND NOT matched, id, NULL)) VIRTUAL,
    ADD KEY unmatched (unmatched)');
PREPARE changing FROM @change;
EXECUTE changing;
DEALLOCATE PREPARE changing;

-- +goose Down
SET @change = IF((SELECT COUNT(*) FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'job_event' AND column_name = 'matched') = 0, 'DO 0',
  'ALTER TABLE job_event DROP KEY unmatched, DROP COLUMN unmatched, DROP COLUMN matched');
PREPARE changing FROM @change;
EXECUTE changing;
DEALLOCATE PREPARE changing;
