package store

import (
	"errors"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nearjob/nearjob/geo"
)

// State is where a job stands in its life. Only open jobs are found by a search.
type State string

// The states of a job, see lifecycle.go for what leads from one to another. A job
// is open from its posting, and whenever a match has fallen through.
const (
	Open           State = "open"
	Matched        State = "matched"         // a worker was accepted
	InProgress     State = "in_progress"     // the worker has started
	FinishReported State = "finish_reported" // the worker says that it is done
	Completed      State = "completed"       // the requester says so too
	Cancelled      State = "cancelled"       // by the requester
	Expired        State = "expired"         // nobody came in time
)

// States lists every state.
func States() []State {
	return []State{Open, Matched, InProgress, FinishReported, Completed, Cancelled, Expired}
}

// Limits of a job's texts, in characters.
const (
	MaxTitle       = 300
	MaxDescription = 20_000
	MaxURL         = 2_000
	MaxCategory    = 64
	MaxEmployer    = 200
	MaxSource      = 64
	MaxSourceID    = 300
)

// SourceHere is the Source of jobs that were posted here.
const SourceHere = "nearjob"

// Job is a small task that a requester posts at a place.
type Job struct {
	ID ID

	// Source and SourceID name the job where it came from; together they are
	// unique, and importing them again updates the job. A job that was posted
	// here has SourceHere, and its ID as SourceID unless it is given another.
	Source, SourceID string

	Title       string
	Description string
	URL         string
	Category    string // lower case
	Employer    string
	Pay         Pay

	// At is the place, unless the job is Remote: then it has none.
	At     geo.LatLng
	Remote bool

	State   State
	Posted  time.Time
	Expires time.Time // zero: never

	Requester UserID // who posted it here; "" for an imported job
	Version   int64  // grows with every change of the job; 0: imported, and not changed since
}

// Pay is what a job pays. The zero Pay is not stated, and passes no filter that
// asks for pay. Where a posting names a range, Amount is its lower end.
type Pay struct {
	Amount   int64  // hundredths of the currency unit, 0..MaxPay
	Currency string // ISO 4217, three capital letters; "" where the source names none
	Per      string // "job", "hour", "day", "week", "month", "year", or "" where not stated
}

// MaxPay is the largest Amount: a million million units.
const MaxPay = 1e14

// Hundredths turns an amount in currency units into hundredths. It reports false
// for what is not a whole number of hundredths in 0..MaxPay: for what is not the
// float64 nearest to one.
func Hundredths(units float64) (int64, bool) {
	h := math.Round(units * 100)
	if !(h >= 0 && h <= MaxPay) || h/100 != units {
		return 0, false
	}
	return int64(h), true
}

// Units is the amount in currency units.
func (p Pay) Units() float64 { return float64(p.Amount) / 100 }

// never is what Expires is stored as when a job does not expire: the last
// millisecond of the year 9999, so that "expires > now" needs no NULL.
var never = time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC).UnixMilli()

// Millis turns a time into what engines store: milliseconds since 1970, UTC.
func Millis(t time.Time) int64 { return t.UnixMilli() }

// ExpiryMillis is [Millis] for an Expires, where the zero time means never.
func ExpiryMillis(t time.Time) int64 {
	if t.IsZero() {
		return never
	}
	return t.UnixMilli()
}

// Time is the reverse of [Millis].
func Time(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// ExpiryTime is the reverse of [ExpiryMillis].
func ExpiryTime(ms int64) time.Time {
	if ms >= never {
		return time.Time{}
	}
	return Time(ms)
}

// Normalize brings a job to the form in which it is stored: texts trimmed,
// white space in one-line texts folded, category in lower case, times to the
// millisecond in UTC, longitude -180 as 180, and defaults filled in. It refuses,
// with every fault at once, what cannot be stored; the error is an *[InvalidError].
func (j *Job) Normalize() error {
	var f faults
	oneLine(&f, "title", &j.Title, MaxTitle)
	oneLine(&f, "category", &j.Category, MaxCategory)
	j.Category = strings.ToLower(j.Category)
	oneLine(&f, "employer", &j.Employer, MaxEmployer)
	oneLine(&f, "url", &j.URL, MaxURL)
	oneLine(&f, "source", &j.Source, MaxSource)
	oneLine(&f, "source_id", &j.SourceID, MaxSourceID)
	j.Description = strings.TrimSpace(j.Description)
	checkText(&f, "description", j.Description, MaxDescription, "\n\r\t")
	if j.Title == "" {
		f.add("title", "is missing")
	}
	if j.ID <= 0 {
		f.add("id", "%d is not a positive number", j.ID)
	}
	if j.Source == "" {
		j.Source = SourceHere
	}
	if j.SourceID == "" {
		j.SourceID = j.ID.String()
	}
	j.Pay.check(&f)
	if j.Remote {
		j.At = geo.LatLng{}
	} else if at, err := geo.NewLatLng(j.At.Lat, j.At.Lng); err != nil {
		f.addRange(err)
	} else {
		j.At = at
	}
	if j.State == "" {
		j.State = Open
	}
	if j.Requester != "" {
		j.Requester.check(&f, "requester")
	}
	if j.Version < 0 {
		f.add("version", "%d is negative", j.Version)
	}
	j.Posted = j.Posted.UTC().Truncate(time.Millisecond)
	if !storable(j.Posted) {
		f.add("posted", "is missing or not in the years 1970 to 9999")
	}
	if !j.Expires.IsZero() {
		j.Expires = j.Expires.UTC().Truncate(time.Millisecond)
		if !storable(j.Expires) {
			f.add("expires", "is not in the years 1970 to 9999")
		}
	}
	return f.err()
}

func storable(t time.Time) bool {
	return !t.IsZero() && t.UnixMilli() >= 0 && t.UnixMilli() < never
}

func (p *Pay) check(f *faults) {
	if p.Amount < 0 || p.Amount > MaxPay {
		f.add("pay", "%d is not 0..%.0f hundredths", p.Amount, float64(MaxPay))
	}
	p.Currency = strings.ToUpper(strings.TrimSpace(p.Currency))
	if p.Currency != "" && (len(p.Currency) != 3 || strings.Trim(p.Currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "") {
		f.add("currency", "%.20q is not an ISO 4217 code of three letters", p.Currency)
	}
	p.Per = strings.ToLower(strings.TrimSpace(p.Per))
	switch p.Per {
	case "", "job", "hour", "day", "week", "month", "year":
	default:
		f.add("pay_per", "%.20q is not job, hour, day, week, month or year", p.Per)
	}
}

// addRange adds a geo.RangeError under its own field.
func (f *faults) addRange(err error) {
	var re *geo.RangeError
	if errors.As(err, &re) {
		f.add(re.Field, "%v is not %v..%v degrees", re.Value, re.Min, re.Max)
		return
	}
	f.add("lat", "%v", err)
}

// oneLine folds white space and checks what must fit on one line.
func oneLine(f *faults, field string, s *string, most int) {
	if utf8.ValidString(*s) {
		*s = strings.Join(strings.Fields(*s), " ")
	}
	checkText(f, field, *s, most, "")
}

func checkText(f *faults, field, s string, most int, controls string) {
	switch {
	case !utf8.ValidString(s):
		f.add(field, "is not valid UTF-8")
	case utf8.RuneCountInString(s) > most:
		f.add(field, "is longer than %d characters", most)
	case strings.IndexFunc(s, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune(controls, r) }) >= 0:
		f.add(field, "has a control character")
	}
}
