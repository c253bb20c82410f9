-- +goose Up
-- What matching needs of a job. sweep is what the sweep looks for; jobs that were
-- imported are not in it, since the next import may bring them a later end. A
-- column cannot be added IF NOT EXISTS: the change is left out where it was made
-- before.
SET @change = IF((SELECT COUNT(*) FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'job' AND column_name = 'requester') > 0, 'DO 0',
  'ALTER TABLE job
    ADD COLUMN requester VARCHAR(128) NOT NULL DEFAULT '''',
    ADD COLUMN version   BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN seq       BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN sweep     BIGINT GENERATED ALWAYS AS (IF(state = ''open'' AND requester <> '''', expires, NULL)) VIRTUAL,
    ADD KEY requester_id (requester, id),
    ADD KEY sweep (sweep)');
PREPARE changing FROM @change;
EXECUTE changing;
DEALLOCATE PREPARE changing;

-- +goose Down
SET @change = IF((SELECT COUNT(*) FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'job' AND column_name = 'requester') = 0, 'DO 0',
  'ALTER TABLE job DROP KEY sweep, DROP KEY requester_id, DROP COLUMN sweep, DROP COLUMN seq, DROP COLUMN version, DROP COLUMN requester');
PREPARE changing FROM @change;
EXECUTE changing;
DEALLOCATE PREPARE changing;
