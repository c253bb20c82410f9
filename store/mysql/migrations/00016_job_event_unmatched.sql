-- +goose Up
ALTER TABLE job_event ALTER COLUMN matched SET DEFAULT FALSE;

-- +goose Down
ALTER TABLE job_event ALTER COLUMN matched SET DEFAULT TRUE;
