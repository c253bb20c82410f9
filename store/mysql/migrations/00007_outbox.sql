-- +goose Up
-- The messages. The transitions of a job hold its lock while they insert, so that
-- the ids grow along its history. due is when a pending message may be claimed,
-- the end of its lease while it is claimed, and when it ended afterwards.
CREATE TABLE IF NOT EXISTS outbox (
  id          BIGINT        NOT NULL AUTO_INCREMENT,
  event       BIGINT        NOT NULL,
  job         BIGINT        NOT NULL,
  application BIGINT        NOT NULL,
  recipient   VARCHAR(128)  NOT NULL,
  role        VARCHAR(16)   NOT NULL,
  action      VARCHAR(16)   NOT NULL,
  actor       VARCHAR(128)  NOT NULL,
  at          BIGINT        NOT NULL,
  title       VARCHAR(300)  NOT NULL,
  job_state   VARCHAR(16)   NOT NULL,
  note        VARCHAR(2000) NOT NULL,
  state       VARCHAR(16)   NOT NULL,
  attempts    INT           NOT NULL,
  due         BIGINT        NOT NULL,
  node        VARCHAR(64)   NOT NULL,
  last_error  VARCHAR(1000) NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY event_recipient (event, recipient),
  KEY job_state (job, state, id),
  KEY state_due (state, due),
  KEY state_id (state, id),
  KEY recipient_id (recipient, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_bin;

-- +goose Down
DROP TABLE IF EXISTS outbox;
