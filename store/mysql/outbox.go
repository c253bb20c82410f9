package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/nearjob/nearjob/store"
)

const messageColumns = "id, event, job, application, recipient, role, action, actor, at, title, job_state, note, state, attempts, due, node, last_error"

// messageRow is a row of messageColumns.
type messageRow struct {
	ID          store.ID           `db:"id"`
	Event       store.ID           `db:"event"`
	Job         store.ID           `db:"job"`
	Application store.ID           `db:"application"`
	Recipient   store.UserID       `db:"recipient"`
	Role        store.Role         `db:"role"`
	Action      store.Action       `db:"action"`
	Actor       store.UserID       `db:"actor"`
	At          int64              `db:"at"`
	Title       string             `db:"title"`
	JobState    store.State        `db:"job_state"`
	Note        string             `db:"note"`
	State       store.MessageState `db:"state"`
	Attempts    int                `db:"attempts"`
	Due         int64              `db:"due"`
	Node        string             `db:"node"`
	LastError   string             `db:"last_error"`
}

func (r *messageRow) message() store.Message {
	m := store.Message{ID: r.ID, Event: r.Event, Job: r.Job, Application: r.Application, Recipient: r.Recipient, Role: r.Role, Action: r.Action,
		Actor: r.Actor, At: store.Time(r.At), Title: r.Title, JobState: r.JobState, Note: r.Note, State: r.State, Attempts: r.Attempts,
		Due: store.Time(r.Due), Node: r.Node, LastError: r.LastError}
	m.SetEnded()
	return m
}

// The reads of the messages, each along an index.
const (
	claimableSQL = "SELECT id, job FROM outbox AS m FORCE INDEX (state_loose_due) WHERE state = 'pending' AND loose = ? AND due <= ?" +
		" AND NOT EXISTS (SELECT 1 FROM outbox AS e WHERE e.lane = m.lane AND e.state = 'pending' AND e.id < m.id)" +
		" ORDER BY due LIMIT ? FOR UPDATE OF m SKIP LOCKED"
	listSQL  = "SELECT " + messageColumns + " FROM outbox FORCE INDEX (state_id) WHERE state = ? AND id > ? ORDER BY id LIMIT ?"
	inboxSQL = "SELECT " + messageColumns + " FROM outbox FORCE INDEX (recipient_id) WHERE recipient = ? AND id > ? ORDER BY id LIMIT ?"
)

// Claim implements [store.Outbox]. What alerts tell is taken when nothing else is due: it
// would keep all others waiting, for a job can concern thousands.
//
// The messages that another node is claiming are skipped. That no earlier one of a
// job is pending is asked twice: a locking read takes rows as they are now, but its
// subquery sees the snapshot of the statement's beginning, so that of two messages
// committed in between it can see the second without the first. A statement later
// there is a snapshot that has both.
func (e *Engine) Claim(ctx context.Context, node string, n int, lease time.Duration, now time.Time) ([]store.Message, error) {
	if err := store.CheckClaim(node, n, lease); err != nil {
		return nil, err
	}
	var rows []messageRow
	err := e.transition(ctx, "claim", false, func(tx *sqlx.Tx, unknown bool) error {
		// Where the outcome of a claim is unknown, what it took is left to its lease.
		rows = nil
		type head struct{ ID, Job store.ID }
		var heads []head
		for _, loose := range []bool{false, true} {
			if len(heads) == n {
				break
			}
			var some []head
			if err := e.sel(ctx, tx, &some, claimableSQL, loose, store.Millis(now), n-len(heads)); err != nil {
				return err
			}
			heads = append(heads, some...)
		}
		if len(heads) == 0 {
			return nil
		}
		ids := make([]int64, len(heads))
		for i, h := range heads {
			ids[i] = int64(h.ID)
		}
		late, err := e.behind(ctx, tx, ids)
		if err != nil {
			return err
		}
		ids = slices.DeleteFunc(ids, func(id int64) bool { return slices.Contains(late, id) })
		if len(ids) == 0 {
			return nil
		}
		query, args, err := sqlx.In("UPDATE outbox SET attempts = attempts + 1, node = ?, due = ? WHERE id IN (?)", node, store.Millis(now.Add(lease)), ids)
		if err != nil {
			return err
		}
		if err := e.changing(ctx, tx, len(ids), query, args...); err != nil {
			return err
		}
		query, args, err = sqlx.In("SELECT "+messageColumns+" FROM outbox WHERE id IN (?) ORDER BY id", ids)
		if err != nil {
			return err
		}
		return e.sel(ctx, tx, &rows, query, args...)
	})
	if err != nil {
		return nil, err
	}
	all := make([]store.Message, len(rows))
	for i := range rows {
		all[i] = rows[i].message()
	}
	return all, nil
}

// behind returns those of some messages that have a pending one of their job before them.
func (e *Engine) behind(ctx context.Context, tx *sqlx.Tx, ids []int64) ([]int64, error) {
	query, args, err := sqlx.In("SELECT m.id FROM outbox AS m WHERE m.id IN (?)"+
		" AND EXISTS (SELECT 1 FROM outbox AS e WHERE e.lane = m.lane AND e.state = 'pending' AND e.id < m.id)", ids)
	if err != nil {
		return nil, err
	}
	var late []int64
	err = e.sel(ctx, tx, &late, query, args...)
	return late, err
}

// write runs one statement that may be repeated, and returns how many rows it found.
func (e *Engine) write(ctx context.Context, action, query string, args ...any) (n int, err error) {
	err = e.transition(ctx, action, false, func(tx *sqlx.Tx, _ bool) error {
		found, err := e.exec(ctx, tx, query, args...)
		n = int(found)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// held changes a message that a claim still holds. A replay begins to count the attempts
// again: the end of the lease tells the claims of one node apart all the same.
func (e *Engine) held(ctx context.Context, tx *sqlx.Tx, unknown bool, m *store.Message, set string, args ...any) error {
	n, err := e.exec(ctx, tx, "UPDATE outbox SET "+set+" WHERE id = ? AND state = 'pending' AND attempts = ? AND node = ? AND due = ?",
		append(args, int64(m.ID), m.Attempts, m.Node, store.Millis(m.Due))...)
	if err != nil || n == 1 || unknown {
		return err // an attempt that was done has let go of it
	}
	return fmt.Errorf("message %s: %w", m.ID, store.ErrLeaseLost)
}

// followSQL makes the messages that wait for one before them due no earlier than that:
// else each claim would pass over them all, and after a channel's outage they are many.
const followSQL = "UPDATE outbox SET due = ? WHERE lane = ? AND state = 'pending' AND id > ? AND node = '' AND due < ?"

// Retry implements [store.Outbox].
func (e *Engine) Retry(ctx context.Context, m store.Message, at time.Time, cause string) error {
	return e.transition(ctx, "retry", false, func(tx *sqlx.Tx, unknown bool) error {
		due := store.Millis(at)
		if err := e.held(ctx, tx, unknown, &m, "due = ?, node = '', last_error = ?", due, store.Cause(cause)); err != nil || m.Action == store.ActOpened {
			return err
		}
		_, err := e.exec(ctx, tx, followSQL, due, int64(m.Job), int64(m.ID), due)
		return err
	})
}

// Dead implements [store.Outbox].
func (e *Engine) Dead(ctx context.Context, m store.Message, now time.Time, cause string) error {
	return e.transition(ctx, "dead", false, func(tx *sqlx.Tx, unknown bool) error {
		return e.held(ctx, tx, unknown, &m, "state = 'dead', due = ?, node = '', last_error = ?", store.Millis(now), store.Cause(cause))
	})
}

// Done implements [store.Outbox].
func (e *Engine) Done(ctx context.Context, m store.Message, now time.Time) error {
	_, err := e.write(ctx, "done", "UPDATE outbox SET state = 'delivered', due = ?, node = '' WHERE id = ? AND state <> 'delivered'",
		store.Millis(now), int64(m.ID))
	return err
}

// List implements [store.OutboxAdmin].
func (e *Engine) List(ctx context.Context, state store.MessageState, k store.Keys) ([]store.Message, error) {
	return list(ctx, e, k, (*messageRow).message, listSQL, string(state), k.After, k.Limit)
}

// Replay implements [store.OutboxAdmin].
func (e *Engine) Replay(ctx context.Context, ids []store.ID, at time.Time) (int, error) {
	n := 0
	err := e.transition(ctx, "replay", false, func(tx *sqlx.Tx, _ bool) error {
		n = 0
		for part := range slices.Chunk(ids, maxIDs) {
			numbers := make([]int64, len(part))
			for i, id := range part {
				numbers[i] = int64(id)
			}
			query, args, err := sqlx.In("UPDATE outbox SET state = 'pending', attempts = 0, due = ?, node = '' WHERE id IN (?) AND state <> 'pending'",
				store.Millis(at), numbers)
			if err != nil {
				return err
			}
			found, err := e.exec(ctx, tx, query, args...)
			if err != nil {
				return err
			}
			n += int(found)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Depth implements [store.OutboxAdmin].
func (e *Engine) Depth(ctx context.Context) (store.Depth, error) {
	var d store.Depth
	var counts []struct {
		State store.MessageState `db:"state"`
		N     int                `db:"n"`
	}
	if err := e.sel(ctx, e.db, &counts, "SELECT state, COUNT(*) AS n FROM outbox GROUP BY state"); err != nil {
		return store.Depth{}, translate(ctx, err)
	}
	for _, c := range counts {
		d.Count(c.State, c.N)
	}
	var oldest []int64
	if err := e.sel(ctx, e.db, &oldest, "SELECT at FROM outbox FORCE INDEX (state_id) WHERE state = 'pending' ORDER BY id LIMIT 1"); err != nil {
		return store.Depth{}, translate(ctx, err)
	}
	if len(oldest) > 0 {
		d.Oldest = store.Time(oldest[0])
	}
	return d, nil
}

// PruneMessages implements [store.OutboxAdmin].
func (e *Engine) PruneMessages(ctx context.Context, before time.Time, limit int) (int, error) {
	if err := (store.Keys{Limit: limit}).Validate(); err != nil {
		return 0, err
	}
	n := 0
	for _, state := range []store.MessageState{store.Delivered, store.Dead} {
		if n == limit {
			break
		}
		some, err := e.write(ctx, "prune", "DELETE FROM outbox WHERE state = ? AND due < ? ORDER BY due LIMIT ?", string(state), store.Millis(before), limit-n)
		if err != nil {
			return n, err
		}
		n += some
	}
	return n, nil
}

// Messages implements [store.Inbox].
func (e *Engine) Messages(ctx context.Context, user store.UserID, k store.Keys) ([]store.Message, error) {
	return list(ctx, e, k, (*messageRow).message, inboxSQL, string(user), k.After, k.Limit)
}

// LastMessage implements [store.Inbox].
func (e *Engine) LastMessage(ctx context.Context, user store.UserID) (store.ID, error) {
	var last []store.ID
	if err := e.sel(ctx, e.db, &last, "SELECT id FROM outbox WHERE recipient = ? ORDER BY id DESC LIMIT 1", string(user)); err != nil {
		return 0, translate(ctx, err)
	}
	if len(last) == 0 {
		return 0, nil
	}
	return last[0], nil
}

// Begin implements [store.Idempotency]. The row is put there first, where there is
// none, so that two at once meet on its lock and not on a gap.
func (e *Engine) Begin(ctx context.Context, k store.OperationKey, bodyHash [32]byte, now time.Time, lease time.Duration) (store.Answer, error) {
	if err := store.CheckLease(lease); err != nil {
		return store.Answer{}, err
	}
	id := k.Hash()
	mine := store.Answer{State: store.AnswerNew, BodyHash: bodyHash, Token: int64(e.ids.Next()), Until: store.Time(store.Millis(now.Add(lease)))}
	var a store.Answer
	err := e.transition(ctx, "begin", false, func(tx *sqlx.Tx, _ bool) error {
		if _, err := e.exec(ctx, tx, "INSERT INTO answer (id, body_hash, token, began, until, status, header, body) VALUES (?, ?, ?, ?, ?, 0, '', '')"+
			" ON DUPLICATE KEY UPDATE id = answer.id", id[:], bodyHash[:], mine.Token, store.Millis(now), store.Millis(mine.Until)); err != nil {
			return err
		}
		var rows []struct {
			BodyHash []byte `db:"body_hash"`
			Token    int64  `db:"token"`
			Until    int64  `db:"until"`
			Status   int    `db:"status"`
			Header   string `db:"header"`
			Body     []byte `db:"body"`
		}
		if err := e.sel(ctx, tx, &rows, "SELECT body_hash, token, until, status, header, body FROM answer WHERE id = ? FOR UPDATE", id[:]); err != nil {
			return err
		}
		if len(rows) != 1 {
			return fmt.Errorf("%w: the answer to %s is gone", errHalf, k.Operation)
		}
		r := &rows[0]
		var err error
		if a, err = store.StoredAnswer(r.BodyHash, r.Until, r.Status, r.Header, r.Body); err != nil {
			return err
		}
		if r.Token == mine.Token {
			a = mine
			return nil
		}
		if a.State == store.AnswerKnown || a.Until.After(now) {
			return nil
		}
		a = mine
		return e.changing(ctx, tx, 1, "UPDATE answer SET body_hash = ?, token = ?, began = ?, until = ? WHERE id = ?",
			bodyHash[:], mine.Token, store.Millis(now), store.Millis(mine.Until), id[:])
	})
	if err != nil {
		return store.Answer{}, err
	}
	return a, nil
}

// Finish implements [store.Idempotency].
func (e *Engine) Finish(ctx context.Context, k store.OperationKey, token int64, status int, header map[string][]string, body []byte) error {
	text, err := store.AnswerHeader(status, header)
	if err != nil {
		return err
	}
	if body == nil {
		body = []byte{}
	}
	id := k.Hash()
	return e.transition(ctx, "finish_answer", false, func(tx *sqlx.Tx, unknown bool) error {
		n, err := e.exec(ctx, tx, "UPDATE answer SET status = ?, header = ?, body = ? WHERE id = ? AND token = ? AND status = 0",
			status, text, body, id[:], token)
		if err != nil || n == 1 || unknown {
			return err
		}
		return fmt.Errorf("the answer to %s: %w", k.Operation, store.ErrLeaseLost)
	})
}

// Forget implements [store.Idempotency].
func (e *Engine) Forget(ctx context.Context, k store.OperationKey, token int64) error {
	id := k.Hash()
	_, err := e.write(ctx, "forget", "DELETE FROM answer WHERE id = ? AND token = ? AND status = 0", id[:], token)
	return err
}

// SweepAnswers implements [store.Idempotency].
func (e *Engine) SweepAnswers(ctx context.Context, before time.Time, limit int) (int, error) {
	if err := (store.Keys{Limit: limit}).Validate(); err != nil {
		return 0, err
	}
	return e.write(ctx, "sweep", "DELETE FROM answer WHERE began < ? ORDER BY began LIMIT ?", store.Millis(before), limit)
}

// PutDevice implements [store.Devices].
func (e *Engine) PutDevice(ctx context.Context, d store.Device) error {
	if err := d.Validate(); err != nil {
		return err
	}
	_, err := e.write(ctx, "device", "INSERT INTO device (id, token, owner, created) VALUES (UNHEX(SHA2(?, 256)), ?, ?, ?) AS new"+
		" ON DUPLICATE KEY UPDATE owner = new.owner, created = new.created", d.Token, d.Token, string(d.User), store.Millis(d.Created))
	return err
}

// DeleteDevice implements [store.Devices].
func (e *Engine) DeleteDevice(ctx context.Context, user store.UserID, token string) error {
	_, err := e.write(ctx, "device", "DELETE FROM device WHERE id = UNHEX(SHA2(?, 256)) AND owner = ?", token, string(user))
	return err
}

// Devices implements [store.Devices].
func (e *Engine) Devices(ctx context.Context, user store.UserID) ([]store.Device, error) {
	type row struct {
		Token   string       `db:"token"`
		Owner   store.UserID `db:"owner"`
		Created int64        `db:"created"`
	}
	return list(ctx, e, store.Keys{Limit: store.MaxPerUser}, func(r *row) store.Device {
		return store.Device{Token: r.Token, User: r.Owner, Created: store.Time(r.Created)}
	}, "SELECT token, owner, created FROM device WHERE owner = ? ORDER BY created DESC LIMIT ?", string(user), store.MaxPerUser)
}

// PutWebhook implements [store.Webhooks].
func (e *Engine) PutWebhook(ctx context.Context, w store.Webhook) error {
	if err := w.Validate(); err != nil {
		return err
	}
	return e.transition(ctx, "webhook", false, func(tx *sqlx.Tx, _ bool) error {
		if _, err := e.exec(ctx, tx, "INSERT INTO webhook (id, owner, url, secret, created, disabled) VALUES (?, ?, ?, ?, ?, ?) AS new"+
			" ON DUPLICATE KEY UPDATE url = IF(webhook.owner = new.owner, new.url, webhook.url), secret = IF(webhook.owner = new.owner, new.secret, webhook.secret),"+
			" disabled = IF(webhook.owner = new.owner, new.disabled, webhook.disabled)",
			int64(w.ID), string(w.User), w.URL, w.Secret, store.Millis(w.Created), w.Disabled); err != nil {
			return err
		}
		var owners []store.UserID
		if err := e.sel(ctx, tx, &owners, "SELECT owner FROM webhook WHERE id = ?", int64(w.ID)); err != nil {
			return err
		}
		if len(owners) != 1 || owners[0] != w.User {
			return fmt.Errorf("%w: webhook %s is another user's", store.ErrForbidden, w.ID)
		}
		return nil
	})
}

// DeleteWebhook implements [store.Webhooks].
func (e *Engine) DeleteWebhook(ctx context.Context, user store.UserID, id store.ID) error {
	_, err := e.write(ctx, "webhook", "DELETE FROM webhook WHERE id = ? AND owner = ?", int64(id), string(user))
	return err
}

// Webhooks implements [store.Webhooks].
func (e *Engine) Webhooks(ctx context.Context, user store.UserID) ([]store.Webhook, error) {
	type row struct {
		ID       store.ID     `db:"id"`
		Owner    store.UserID `db:"owner"`
		URL      string       `db:"url"`
		Secret   string       `db:"secret"`
		Created  int64        `db:"created"`
		Disabled string       `db:"disabled"`
	}
	return list(ctx, e, store.Keys{Limit: store.MaxPerUser}, func(r *row) store.Webhook {
		return store.Webhook{ID: r.ID, User: r.Owner, URL: r.URL, Secret: r.Secret, Created: store.Time(r.Created), Disabled: r.Disabled}
	}, "SELECT id, owner, url, secret, created, disabled FROM webhook WHERE owner = ? ORDER BY id LIMIT ?", string(user), store.MaxPerUser)
}

// Settings implements [store.Profiles].
func (e *Engine) Settings(ctx context.Context, user store.UserID) (store.Settings, error) {
	var rows []struct {
		Language string         `db:"language"`
		Channels sql.NullString `db:"channels"`
	}
	if err := e.sel(ctx, e.db, &rows, "SELECT language, channels FROM settings WHERE owner = ?", string(user)); err != nil {
		return store.Settings{}, translate(ctx, err)
	}
	if len(rows) == 0 {
		return store.Settings{}, nil
	}
	s := store.Settings{Language: rows[0].Language}
	if rows[0].Channels.Valid {
		s.Channels = strings.FieldsFunc(rows[0].Channels.String, func(r rune) bool { return r == ',' })
	}
	return s, nil
}

// PutSettings implements [store.Profiles].
func (e *Engine) PutSettings(ctx context.Context, user store.UserID, s store.Settings) error {
	if err := user.Validate(); err != nil {
		return err
	}
	if err := s.Normalize(); err != nil {
		return err
	}
	var channels any
	if s.Channels != nil {
		channels = strings.Join(s.Channels, ",")
	}
	_, err := e.write(ctx, "settings", "INSERT INTO settings (owner, language, channels) VALUES (?, ?, ?) AS new"+
		" ON DUPLICATE KEY UPDATE language = new.language, channels = new.channels", string(user), s.Language, channels)
	return err
}
