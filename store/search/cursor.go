package search

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/nearjob/nearjob/store"
)

// key is a place in the order of an answer.
type key struct {
	distance float64 // by distance: metres, unrounded, +Inf for a remote job
	posted   int64   // newest first: milliseconds
	id       store.ID
}

// before reports whether k comes before l.
func (k key) before(l key, by store.Sort) bool {
	if by == store.ByNewest {
		if k.posted != l.posted {
			return k.posted > l.posted
		}
		return k.id > l.id
	}
	if k.distance != l.distance {
		return k.distance < l.distance
	}
	return k.id < l.id
}

// cursor is where a page ended: the key of its last row, and how many rows there
// were up to it, from which a strategy guesses how far the next ones are.
type cursor struct {
	key
	seen int
}

const cursorVersion = 1

// A cursor's bytes: version, fingerprint of the query, key, seen.
const cursorLen = 1 + 8 + 8 + 8 + 4

// encode prints the cursor for one query and no other.
func (c cursor) encode(q *store.Query) string {
	b := make([]byte, 0, cursorLen)
	b = append(b, cursorVersion)
	b = append(b, fingerprint(q)...)
	if q.Sort == store.ByNewest {
		b = binary.BigEndian.AppendUint64(b, uint64(c.posted))
	} else {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(c.distance))
	}
	b = binary.BigEndian.AppendUint64(b, uint64(c.id))
	b = binary.BigEndian.AppendUint32(b, uint32(min(c.seen, math.MaxInt32)))
	return base64.RawURLEncoding.EncodeToString(b)
}

// decodeCursor reads the cursor of a normalized query; nil for the first page.
func decodeCursor(q *store.Query) (*cursor, error) {
	if q.Cursor == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(q.Cursor)
	if err != nil || len(b) != cursorLen || b[0] != cursorVersion {
		return nil, store.Invalid("cursor", "is not a cursor of this service: take next_cursor from the page before as it is, or leave it out for the first page")
	}
	if string(b[1:9]) != string(fingerprint(q)) {
		return nil, store.Invalid("cursor", "belongs to another query: place, radius, filter and order must stay the same from page to page")
	}
	c := &cursor{seen: int(binary.BigEndian.Uint32(b[25:]))}
	c.id = store.ID(binary.BigEndian.Uint64(b[17:]))
	bits := binary.BigEndian.Uint64(b[9:])
	if q.Sort == store.ByNewest {
		c.posted = int64(bits)
	} else {
		c.distance = math.Float64frombits(bits)
	}
	if !(c.distance >= 0) || c.posted < 0 || c.id <= 0 || c.seen > math.MaxInt32 {
		return nil, store.Invalid("cursor", "is damaged: start again from the first page")
	}
	return c, nil
}

// fingerprint is the same for queries that have the same rows in the same order.
// Limit and Strategy may change from page to page.
func fingerprint(q *store.Query) []byte {
	f := &q.Filter
	h := sha256.New()
	fmt.Fprintf(h, "%x %x %x %x %s %d %d %q %s %q", q.Center.Lat, q.Center.Lng, q.MinRadius, q.Radius,
		q.Sort, f.MinPay, f.PostedAfter.UnixMilli(), f.Employer, f.Remote, f.Categories)
	if q.Box != nil {
		fmt.Fprintf(h, " %x", *q.Box)
	}
	return h.Sum(nil)[:8]
}
