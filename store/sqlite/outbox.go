package sqlite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/nearjob/nearjob/store"
)

const messageColumns = `id, event, job, application, recipient, role, action, actor, at, title, job_state, note,
	state, attempts, due, node, last_error`

func scanMessage(s *sqlite3.Stmt) store.Message {
	m := store.Message{
		ID: store.ID(s.ColumnInt64(0)), Event: store.ID(s.ColumnInt64(1)), Job: store.ID(s.ColumnInt64(2)), Application: store.ID(s.ColumnInt64(3)),
		Recipient: store.UserID(s.ColumnText(4)), Role: store.Role(s.ColumnText(5)), Action: store.Action(s.ColumnText(6)),
		Actor: store.UserID(s.ColumnText(7)), At: store.Time(s.ColumnInt64(8)), Title: s.ColumnText(9), JobState: store.State(s.ColumnText(10)),
		Note: s.ColumnText(11), State: store.MessageState(s.ColumnText(12)), Attempts: s.ColumnInt(13), Due: store.Time(s.ColumnInt64(14)),
		Node: s.ColumnText(15), LastError: s.ColumnText(16),
	}
	m.SetEnded()
	return m
}

// The reads of the messages, each along an index.
const (
	claimableSQL = "SELECT " + messageColumns + ` FROM outbox AS m WHERE state = 'pending' AND loose = ? AND due <= ?
		AND NOT EXISTS (SELECT 1 FROM outbox AS e WHERE e.lane = m.lane AND e.state = 'pending' AND e.id < m.id) ORDER BY due LIMIT ?`
	listSQL  = "SELECT " + messageColumns + " FROM outbox WHERE state = ? AND id > ? ORDER BY id LIMIT ?"
	inboxSQL = "SELECT " + messageColumns + " FROM outbox WHERE recipient = ? AND id > ? ORDER BY id LIMIT ?"
)

// Claim implements [store.Outbox]. What alerts tell is taken when nothing else is due: it
// would keep all others waiting, for a job can concern thousands.
func (e *Engine) Claim(ctx context.Context, node string, n int, lease time.Duration, now time.Time) ([]store.Message, error) {
	if err := store.CheckClaim(node, n, lease); err != nil {
		return nil, err
	}
	var all []store.Message
	err := e.write(ctx, func(c *conn) error {
		for loose := range int64(2) {
			if err := c.run(func(s *sqlite3.Stmt) error {
				all = append(all, scanMessage(s))
				return nil
			}, claimableSQL, loose, store.Millis(now), int64(n-len(all))); err != nil {
				return err
			}
		}
		until := store.Millis(now.Add(lease))
		for i := range all {
			m := &all[i]
			m.Attempts++
			m.Node, m.Due = node, store.Time(until)
			if err := c.changing(1, "UPDATE outbox SET attempts = ?, node = ?, due = ? WHERE id = ?",
				int64(m.Attempts), node, until, int64(m.ID)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// held changes a message that a claim still holds. A replay begins to count the attempts
// again: the end of the lease tells the claims of one node apart all the same.
func (c *conn) held(m *store.Message, set string, args ...any) error {
	args = append(args, int64(m.ID), int64(m.Attempts), m.Node, store.Millis(m.Due))
	if err := c.run(nil, "UPDATE outbox SET "+set+" WHERE id = ? AND state = 'pending' AND attempts = ? AND node = ? AND due = ?", args...); err != nil {
		return err
	}
	if c.Changes() == 0 {
		return fmt.Errorf("message %s: %w", m.ID, store.ErrLeaseLost)
	}
	return nil
}

// followSQL makes the messages that wait for one before them due no earlier than that:
// else each claim would pass over them all, and after a channel's outage they are many.
const followSQL = "UPDATE outbox SET due = ?1 WHERE lane = ?2 AND state = 'pending' AND id > ?3 AND node = '' AND due < ?1"

// Retry implements [store.Outbox].
func (e *Engine) Retry(ctx context.Context, m store.Message, at time.Time, cause string) error {
	return e.write(ctx, func(c *conn) error {
		due := store.Millis(at)
		if err := c.held(&m, "due = ?, node = '', last_error = ?", due, store.Cause(cause)); err != nil || m.Action == store.ActOpened {
			return err
		}
		return c.run(nil, followSQL, due, int64(m.Job), int64(m.ID))
	})
}

// Dead implements [store.Outbox].
func (e *Engine) Dead(ctx context.Context, m store.Message, now time.Time, cause string) error {
	return e.write(ctx, func(c *conn) error {
		return c.held(&m, "state = 'dead', due = ?, node = '', last_error = ?", store.Millis(now), store.Cause(cause))
	})
}

// Done implements [store.Outbox].
func (e *Engine) Done(ctx context.Context, m store.Message, now time.Time) error {
	return e.write(ctx, func(c *conn) error {
		return c.run(nil, "UPDATE outbox SET state = 'delivered', due = ?, node = '' WHERE id = ? AND state <> 'delivered'",
			store.Millis(now), int64(m.ID))
	})
}

// List implements [store.OutboxAdmin].
func (e *Engine) List(ctx context.Context, state store.MessageState, k store.Keys) ([]store.Message, error) {
	return list(ctx, e, k, scanMessage, listSQL, string(state), k.After, int64(k.Limit))
}

// Replay implements [store.OutboxAdmin].
func (e *Engine) Replay(ctx context.Context, ids []store.ID, at time.Time) (n int, err error) {
	err = e.write(ctx, func(c *conn) error {
		n = 0
		for _, id := range ids {
			if err := c.run(nil, `UPDATE outbox SET state = 'pending', attempts = 0, due = ?, node = '' WHERE id = ? AND state <> 'pending'`,
				store.Millis(at), int64(id)); err != nil {
				return err
			}
			n += int(c.Changes())
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Depth implements [store.OutboxAdmin].
func (e *Engine) Depth(ctx context.Context) (d store.Depth, err error) {
	err = e.read(ctx, func(c *conn) error {
		d = store.Depth{}
		if err := c.run(func(s *sqlite3.Stmt) error {
			d.Count(store.MessageState(s.ColumnText(0)), s.ColumnInt(1))
			return nil
		}, "SELECT state, count(*) FROM outbox GROUP BY state"); err != nil {
			return err
		}
		return c.run(func(s *sqlite3.Stmt) error {
			d.Oldest = store.Time(s.ColumnInt64(0))
			return nil
		}, "SELECT at FROM outbox WHERE state = 'pending' ORDER BY id LIMIT 1")
	})
	return d, err
}

// PruneMessages implements [store.OutboxAdmin].
func (e *Engine) PruneMessages(ctx context.Context, before time.Time, limit int) (int, error) {
	if err := (store.Keys{Limit: limit}).Validate(); err != nil {
		return 0, err
	}
	return e.remove(ctx, `DELETE FROM outbox WHERE id IN (SELECT id FROM outbox WHERE state IN ('delivered', 'dead') AND due < ? LIMIT ?)`,
		store.Millis(before), int64(limit))
}

// remove runs a DELETE and returns how many rows it took.
func (e *Engine) remove(ctx context.Context, sql string, args ...any) (n int, err error) {
	err = e.write(ctx, func(c *conn) error {
		if err := c.run(nil, sql, args...); err != nil {
			return err
		}
		n = int(c.Changes())
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Messages implements [store.Inbox].
func (e *Engine) Messages(ctx context.Context, user store.UserID, k store.Keys) ([]store.Message, error) {
	return list(ctx, e, k, scanMessage, inboxSQL, string(user), k.After, int64(k.Limit))
}

// LastMessage implements [store.Inbox].
func (e *Engine) LastMessage(ctx context.Context, user store.UserID) (last store.ID, err error) {
	err = e.read(ctx, func(c *conn) error {
		last = 0
		return c.run(func(s *sqlite3.Stmt) error {
			last = store.ID(s.ColumnInt64(0))
			return nil
		}, "SELECT id FROM outbox WHERE recipient = ? ORDER BY id DESC LIMIT 1", string(user))
	})
	return last, err
}

// Begin implements [store.Idempotency].
func (e *Engine) Begin(ctx context.Context, k store.OperationKey, bodyHash [32]byte, now time.Time, lease time.Duration) (store.Answer, error) {
	if err := store.CheckLease(lease); err != nil {
		return store.Answer{}, err
	}
	id := k.Hash()
	mine := store.Answer{State: store.AnswerNew, BodyHash: bodyHash, Token: int64(e.ids.Next()), Until: store.Time(store.Millis(now.Add(lease)))}
	var a store.Answer
	err := e.write(ctx, func(c *conn) error {
		a = store.Answer{}
		if err := c.run(func(s *sqlite3.Stmt) error {
			var err error
			a, err = store.StoredAnswer(s.ColumnBlob(0, nil), s.ColumnInt64(1), s.ColumnInt(2), s.ColumnText(3), s.ColumnBlob(4, nil))
			return err
		}, "SELECT body_hash, until, status, header, body FROM answer WHERE id = ?", id[:]); err != nil {
			return err
		}
		if a.State == store.AnswerKnown || a.State == store.AnswerRunning && a.Until.After(now) {
			return nil
		}
		a = mine
		return c.run(nil, "INSERT OR REPLACE INTO answer (id, body_hash, token, began, until, status, header, body) VALUES (?, ?, ?, ?, ?, 0, '', x'')",
			id[:], bodyHash[:], mine.Token, store.Millis(now), store.Millis(mine.Until))
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
	return e.write(ctx, func(c *conn) error {
		if err := c.run(nil, "UPDATE answer SET status = ?, header = ?, body = ? WHERE id = ? AND token = ? AND status = 0",
			int64(status), text, body, id[:], token); err != nil {
			return err
		}
		if c.Changes() == 0 {
			return fmt.Errorf("the answer to %s: %w", k.Operation, store.ErrLeaseLost)
		}
		return nil
	})
}

// Forget implements [store.Idempotency].
func (e *Engine) Forget(ctx context.Context, k store.OperationKey, token int64) error {
	id := k.Hash()
	_, err := e.remove(ctx, "DELETE FROM answer WHERE id = ? AND token = ? AND status = 0", id[:], token)
	return err
}

// SweepAnswers implements [store.Idempotency].
func (e *Engine) SweepAnswers(ctx context.Context, before time.Time, limit int) (int, error) {
	if err := (store.Keys{Limit: limit}).Validate(); err != nil {
		return 0, err
	}
	return e.remove(ctx, "DELETE FROM answer WHERE id IN (SELECT id FROM answer WHERE began < ? LIMIT ?)", store.Millis(before), int64(limit))
}

// PutDevice implements [store.Devices].
func (e *Engine) PutDevice(ctx context.Context, d store.Device) error {
	if err := d.Validate(); err != nil {
		return err
	}
	return e.write(ctx, func(c *conn) error {
		return c.run(nil, `INSERT INTO device (token, owner, created) VALUES (?, ?, ?)
			ON CONFLICT (token) DO UPDATE SET owner = excluded.owner, created = excluded.created`,
			d.Token, string(d.User), store.Millis(d.Created))
	})
}

// DeleteDevice implements [store.Devices].
func (e *Engine) DeleteDevice(ctx context.Context, user store.UserID, token string) error {
	_, err := e.remove(ctx, "DELETE FROM device WHERE token = ? AND owner = ?", token, string(user))
	return err
}

// Devices implements [store.Devices].
func (e *Engine) Devices(ctx context.Context, user store.UserID) ([]store.Device, error) {
	return list(ctx, e, store.Keys{Limit: store.MaxPerUser}, func(s *sqlite3.Stmt) store.Device {
		return store.Device{Token: s.ColumnText(0), User: store.UserID(s.ColumnText(1)), Created: store.Time(s.ColumnInt64(2))}
	}, "SELECT token, owner, created FROM device WHERE owner = ? ORDER BY created DESC LIMIT ?", string(user), int64(store.MaxPerUser))
}

// PutWebhook implements [store.Webhooks].
func (e *Engine) PutWebhook(ctx context.Context, w store.Webhook) error {
	if err := w.Validate(); err != nil {
		return err
	}
	return e.write(ctx, func(c *conn) error {
		if err := c.run(nil, `INSERT INTO webhook (id, owner, url, secret, created, disabled) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET url = excluded.url, secret = excluded.secret, disabled = excluded.disabled WHERE owner = excluded.owner`,
			int64(w.ID), string(w.User), w.URL, w.Secret, store.Millis(w.Created), w.Disabled); err != nil {
			return err
		}
		if c.Changes() == 0 {
			return fmt.Errorf("%w: webhook %s is another user's", store.ErrForbidden, w.ID)
		}
		return nil
	})
}

// DeleteWebhook implements [store.Webhooks].
func (e *Engine) DeleteWebhook(ctx context.Context, user store.UserID, id store.ID) error {
	_, err := e.remove(ctx, "DELETE FROM webhook WHERE id = ? AND owner = ?", int64(id), string(user))
	return err
}

// Webhooks implements [store.Webhooks].
func (e *Engine) Webhooks(ctx context.Context, user store.UserID) ([]store.Webhook, error) {
	return list(ctx, e, store.Keys{Limit: store.MaxPerUser}, func(s *sqlite3.Stmt) store.Webhook {
		return store.Webhook{ID: store.ID(s.ColumnInt64(0)), User: store.UserID(s.ColumnText(1)), URL: s.ColumnText(2), Secret: s.ColumnText(3),
			Created: store.Time(s.ColumnInt64(4)), Disabled: s.ColumnText(5)}
	}, "SELECT id, owner, url, secret, created, disabled FROM webhook WHERE owner = ? ORDER BY id LIMIT ?", string(user), int64(store.MaxPerUser))
}

// Settings implements [store.Profiles].
func (e *Engine) Settings(ctx context.Context, user store.UserID) (st store.Settings, err error) {
	err = e.read(ctx, func(c *conn) error {
		st = store.Settings{}
		return c.run(func(s *sqlite3.Stmt) error {
			st.Language = s.ColumnText(0)
			if s.ColumnType(1) != sqlite3.NULL {
				st.Channels = strings.FieldsFunc(s.ColumnText(1), func(r rune) bool { return r == ',' })
			}
			return nil
		}, "SELECT language, channels FROM settings WHERE owner = ?", string(user))
	})
	return st, err
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
	return e.write(ctx, func(c *conn) error {
		return c.run(nil, `INSERT INTO settings (owner, language, channels) VALUES (?, ?, ?)
			ON CONFLICT (owner) DO UPDATE SET language = excluded.language, channels = excluded.channels`, string(user), s.Language, channels)
	})
}
