-- +goose Up
-- The places that are there are the jobs' own.
INSERT INTO open_job_blur (id, blur, unfinished)
SELECT 1, '', FALSE FROM DUAL WHERE NOT EXISTS (SELECT * FROM open_job_blur);

-- +goose Down
-- Blurred places stay blurred: take the blur off before.
DELETE FROM open_job_blur;
