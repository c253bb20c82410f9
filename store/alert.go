package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/nearjob/nearjob/geo"
)

// ActOpened is the Action of the messages by which alerts tell of a job. It is no
// transition: it belongs to the event that has opened the job, which is post, resign or
// reject, and it is told to users who are nothing to the job yet.
const ActOpened Action = "opened"

// Limits of alerts.
const (
	MinAlertRadius = 1       // metres
	MaxAlertRadius = 100_000 // metres
	MaxAlerts      = 50      // of a user
)

// ErrTooManyAlerts is an alert of a user who has [MaxAlerts].
var ErrTooManyAlerts = errors.New("too many alerts")

// Alert is a user's wish to be told when a job opens in an area.
type Alert struct {
	ID      ID
	User    UserID
	Center  geo.LatLng
	Radius  float64 // metres, MinAlertRadius..MaxAlertRadius, inclusive
	Filter  Filter  // Categories, MinPay and Employer; PostedAfter is zero, Remote RemoteExclude
	Created time.Time
}

// Normalize brings an alert to its stored form. It refuses a bad one with every
// fault at once; the error is an *[InvalidError].
func (a *Alert) Normalize() error {
	var f faults
	if a.ID <= 0 {
		f.add("id", "%d is not a positive number", a.ID)
	}
	a.User.check(&f, "user")
	if c, err := geo.NewLatLng(a.Center.Lat, a.Center.Lng); err != nil {
		f.addRange(err)
	} else {
		a.Center = c
	}
	if !(a.Radius >= MinAlertRadius && a.Radius <= MaxAlertRadius) {
		f.add("radius_m", "%v is not %d..%d metres", a.Radius, MinAlertRadius, MaxAlertRadius)
	}
	if !a.Filter.PostedAfter.IsZero() {
		f.add("posted_after", "belongs to a search: an alert tells of jobs when they open")
		a.Filter.PostedAfter = time.Time{}
	}
	if a.Filter.Remote == RemoteInclude || a.Filter.Remote == RemoteOnly {
		f.add("remote", "%s is not for an alert: remote jobs have no place, want exclude", a.Filter.Remote)
	}
	a.Filter.normalize(&f)
	a.Created = a.Created.UTC().Truncate(time.Millisecond)
	if !storable(a.Created) {
		f.add("created", "is missing or not in the years 1970 to 9999")
	}
	return f.err()
}

// Wants reports whether an alert is for a job: whether it is in the circle, by
// the distance as geo computes it and the edge included, passes the filter, and is not the
// user's own.
func (a *Alert) Wants(j *Job) bool {
	m := Match{OpenAt: math.MinInt64, Categories: a.Filter.Categories, MinPay: a.Filter.MinPay, Employer: a.Filter.Employer}
	return !j.Remote && j.Requester != a.User && (geo.Circle{Center: a.Center, Radius: a.Radius}).Contains(j.At) &&
		m.Accepts(&Candidate{Category: j.Category, Employer: j.Employer, Pay: j.Pay.Amount})
}

// AlertBook is a user's side of alerts.
type AlertBook interface {
	// PutAlert adds an alert, or puts it in the place of the user's own one with
	// its ID, and normalizes it. It returns an *[InvalidError], [ErrForbidden] when the ID is another
	// user's, and [ErrTooManyAlerts].
	PutAlert(ctx context.Context, a Alert) error

	// DeleteAlert removes a user's alert, or does nothing.
	DeleteAlert(ctx context.Context, user UserID, id ID) error

	// MyAlerts lists a user's alerts, the oldest first; the key is the id.
	MyAlerts(ctx context.Context, user UserID, k Keys) ([]Alert, error)
}

// Opening is a job that has opened, by its event.
type Opening struct {
	Event ID
	Job   ID
	At    time.Time
}

// AlertKey is where the matching of an opening goes on; the zero AlertKey is its
// beginning. It holds only while the job is not edited: after that the matching begins
// anew by itself.
type AlertKey struct {
	Version int64 // of the job
	Cell    int64
	Alert   ID
}

// AlertMatch is what a piece of matching has done. Pieces add up.
type AlertMatch struct {
	Openings int // that are matched, to their end
	Read     int // alerts whose area could hold the job
	Hits     int // alerts that are for it and had not told of it
	Told     int // messages, at most one for each user
}

// Add returns the sum of two.
func (m AlertMatch) Add(n AlertMatch) AlertMatch {
	return AlertMatch{Openings: m.Openings + n.Openings, Read: m.Read + n.Read, Hits: m.Hits + n.Hits, Told: m.Told + n.Told}
}

// AlertMatcher tells the users of alerts of the jobs that open.
//
// An alert is stored under the cells of its circle (see cell.Areas), and the alerts
// around a job are looked up by the 20 cells that its place is in, so that how many
// there are elsewhere does not matter. The exact distance and the filter decide, in Go, as in a search.
//
// A job opens when it is posted and when a match falls through. The database itself
// notes each such event as pending, in the transaction that writes it, until it is
// matched: MySQL in the history's row, by a generated column with an index, and SQLite
// in a table, by a trigger, since there a default or generated column cannot do it
// without touching every old row. That is all that alerts cost a transition. Nothing
// depends on the order of ids, so that an event that is committed late, with a
// lower id than others that are matched already, is only matched later. Imported
// jobs have no events and tell nobody, nor does an edit, wherever it moves the job.
//
// Nobody is told twice: which alert has told of which job is written in the
// transaction of the messages, under the lock of the job, and stays when the job reopens. So any
// number of nodes may match at once, and one that dies is followed by another that begins
// again; to share the work they need nothing but to begin at different keys.
// A user with several alerts around a job is told of it once. Who has applied for
// the job knows it: he is not told by an alert, nor is its requester. A job that is no longer
// open when it comes to be matched, is past its time, or remote, tells nobody.
type AlertMatcher interface {
	// PendingAlerts lists openings that are not yet matched to their end, the oldest
	// first; the key is the event. To look again, begin at 0: see above.
	PendingAlerts(ctx context.Context, k Keys) ([]Opening, error)

	// MatchAlerts matches a job with up to limit of the alerts around it, 1..[MaxKeys],
	// in one transaction that holds the job, and returns where to go on: nil when this
	// was the end. An opening that is matched already costs one read.
	MatchAlerts(ctx context.Context, o Opening, after AlertKey, limit int, now time.Time) (AlertMatch, *AlertKey, error)

	// PruneAlertHits forgets up to limit of what alerts have told before a time, and returns
	// how many. A job that reopens after that is told of anew.
	PruneAlertHits(ctx context.Context, before time.Time, limit int) (int, error)
}

// Alerts is all that an engine does for alerts.
type Alerts interface {
	AlertBook
	AlertMatcher
}

// MatchOpening matches an opening to its end, in pieces of so many alerts.
func MatchOpening(ctx context.Context, m AlertMatcher, o Opening, piece int, clock func() time.Time) (AlertMatch, error) {
	var sum AlertMatch
	var after AlertKey
	for {
		done, next, err := m.MatchAlerts(ctx, o, after, piece, clock())
		if err != nil {
			return sum, fmt.Errorf("alerts for job %s: %w", o.Job, err)
		}
		sum = sum.Add(done)
		if next == nil {
			return sum, nil
		}
		after = *next
	}
}

// MatchPending matches all that is pending, each in pieces of so many alerts.
// An opening that fails does not keep the others from being matched: it stays
// pending, and its error is among those returned.
func MatchPending(ctx context.Context, m AlertMatcher, piece int, clock func() time.Time) (AlertMatch, error) {
	var sum AlertMatch
	var errs []error
	k := Keys{Limit: 100}
	for {
		pending, err := m.PendingAlerts(ctx, k)
		if err != nil {
			return sum, errors.Join(append(errs, fmt.Errorf("jobs that have opened: %w", err))...)
		}
		for _, o := range pending {
			done, err := MatchOpening(ctx, m, o, piece, clock)
			sum = sum.Add(done)
			if err != nil {
				errs = append(errs, err)
				if ctx.Err() != nil {
					return sum, errors.Join(errs...)
				}
			}
			k.After = int64(o.Event)
		}
		if len(pending) < k.Limit {
			return sum, errors.Join(errs...)
		}
	}
}

// What both engines need to carry out [Alerts].

// Alertable reports whether a job that has opened is to be told of.
func (j *Job) Alertable(now time.Time) bool {
	return !j.Remote && j.Requester != "" && j.StateAt(now) == Open
}

// Opens reports whether an event opens its job. The engines' schemas say the same in SQL.
func (v *Event) Opens() bool { return v.ToJob == Open && v.FromJob != Open }

// AlertHits returns those of some alerts that are for a job.
func AlertHits(j *Job, found []Alert) []Alert {
	var hits []Alert
	for i := range found {
		if found[i].Wants(j) {
			hits = append(hits, found[i])
		}
	}
	return hits
}

// TellAlerts returns which of the hits are to be written down and the messages that
// go with them. told has the alerts that have told of the job and their users,
// applied the users who have applied for it.
func TellAlerts(j *Job, o Opening, hits []Alert, told map[ID]UserID, applied map[UserID]bool, now time.Time) (news []Alert, messages []Message) {
	know := make(map[UserID]bool, len(told))
	for _, user := range told {
		know[user] = true
	}
	for _, a := range hits {
		if _, before := told[a.ID]; before || applied[a.User] {
			continue
		}
		news = append(news, a)
		if know[a.User] {
			continue
		}
		know[a.User] = true
		messages = append(messages, Message{
			Event: o.Event, Job: j.ID, Recipient: a.User, Role: RoleWorker, Action: ActOpened, At: o.At,
			Title: j.Title, JobState: j.State, State: Pending, Due: now,
		})
	}
	return news, messages
}

// CheckAlertPiece refuses a piece of matching that cannot be done, as an *[InvalidError].
func CheckAlertPiece(limit int, now time.Time) error {
	var f faults
	if limit < 1 || limit > MaxKeys {
		f.add("limit", "%d is not 1..%d", limit, MaxKeys)
	}
	if !storable(now) {
		f.add("now", "is missing or not in the years 1970 to 9999")
	}
	return f.err()
}

// AlertCategories is how the categories of an alert are stored: as lines, which
// no category has.
func AlertCategories(categories []string) string { return strings.Join(categories, "\n") }

// StoredAlert makes an alert of its columns.
func StoredAlert(id ID, user UserID, center geo.LatLng, radius float64, categories string, minPay int64, employer string, created int64) Alert {
	a := Alert{ID: id, User: user, Center: center, Radius: radius, Created: Time(created),
		Filter: Filter{MinPay: minPay, Employer: employer, Remote: RemoteExclude}}
	if categories != "" {
		a.Filter.Categories = strings.Split(categories, "\n")
	}
	return a
}

// FullAlertsError is the answer to who has as many alerts as he may have.
func FullAlertsError() error {
	return fmt.Errorf("%w: there are %d already, as many as a user may have: delete one first", ErrTooManyAlerts, MaxAlerts)
}
