-- +goose Up
-- How the places in open_job are blurred, in one row: store.Blur's Key, empty for not at
-- all.
CREATE TABLE open_job_blur (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    blur       TEXT    NOT NULL,
    unfinished INTEGER NOT NULL -- some places are still as before
) STRICT;
INSERT INTO open_job_blur (id, blur, unfinished) VALUES (1, '', 0);

-- +goose Down
DROP TABLE open_job_blur;
