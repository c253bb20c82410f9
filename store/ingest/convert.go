package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nearjob/nearjob/store"
)

// convert turns a row into a job.
func convert(row Row, o *Options) Record {
	rec := Record{Line: row.Line}
	if row.Rejected == nil {
		rec.Job, rec.Warnings, row.Rejected = job(row, o)
	}
	if row.Rejected != nil {
		r := *row.Rejected
		r.Raw = row.Raw
		rec.Job, rec.Warnings, rec.Rejected = store.Job{}, nil, &r
	}
	return rec
}

// reject makes a Rejection.
func reject(reason Reason, format string, args ...any) *Rejection {
	return &Rejection{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

func job(row Row, o *Options) (j store.Job, warnings []Warning, no *Rejection) {
	v := row.Values
	for _, f := range fieldNames {
		if s := v[f.field]; !utf8.ValidString(s) {
			return j, nil, reject(NotUTF8, "%s: %.60q; turn the file into UTF-8", f.field, s)
		}
	}
	j = store.Job{
		ID:          1, // so that Normalize sees one
		Source:      o.Source,
		SourceID:    sourceID(row),
		Title:       v[Title],
		Description: v[Description],
		URL:         v[URL],
		Category:    v[Category],
		Employer:    v[Employer],
		State:       store.Open,
		Posted:      o.Now,
	}
	if id := v[ID]; j.URL == "" && (strings.HasPrefix(id, "https://") || strings.HasPrefix(id, "http://")) {
		j.URL = id
	}
	if strings.TrimSpace(j.Title) == "" {
		return j, nil, reject(MissingTitle, "the title is empty")
	}
	if j.Remote, no = yes(v[Remote]); no != nil {
		return j, nil, no
	}
	if !j.Remote {
		if no = place(&j, v); no != nil {
			return j, nil, no
		}
	}
	if no = pay(&j.Pay, v); no != nil {
		return j, nil, no
	}
	zoned := true
	if s := v[Posted]; s == "" {
		warnings = append(warnings, NoPosted)
	} else if j.Posted, zoned, no = date(Posted, s, false); no != nil {
		return j, nil, no
	}
	if s := v[Expires]; s != "" {
		var z bool
		if j.Expires, z, no = date(Expires, s, true); no != nil {
			return j, nil, no
		}
		zoned = zoned && z
	}
	if !zoned {
		warnings = append(warnings, NoZone)
	}
	if err := j.Normalize(); err != nil {
		return j, nil, reject(reasonOf(err), "%v", err)
	}
	j.ID = 0
	return j, warnings, nil
}

func reasonOf(err error) Reason {
	var invalid *store.InvalidError
	if errors.As(err, &invalid) && len(invalid.Faults) > 0 {
		switch invalid.Faults[0].Field {
		case "lat", "lng":
			return OutOfRange
		case "posted", "expires":
			return BadDate
		}
	}
	return BadValue
}

// sourceID names a record for good: by its id, its URL, or its content.
func sourceID(row Row) string {
	for _, f := range []Field{ID, URL} {
		if s := strings.Join(strings.Fields(row.Values[f]), " "); s != "" {
			if utf8.RuneCountInString(s) <= store.MaxSourceID {
				return s
			}
			return digest(s)
		}
	}
	return digest(row.Parts...)
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		io.WriteString(h, strings.TrimSpace(p))
		h.Write([]byte{0}) // so that "a","bc" is not "ab","c"
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)[:16])
}

func place(j *store.Job, v map[Field]string) *Rejection {
	lat, lng := strings.TrimSpace(v[Lat]), strings.TrimSpace(v[Lng])
	switch {
	case lat == "" && lng == "":
		return reject(MissingCoordinates, "lat and lng are empty")
	case lat == "":
		return reject(MissingCoordinates, "lat is empty")
	case lng == "":
		return reject(MissingCoordinates, "lng is empty")
	}
	var no *Rejection
	if j.At.Lat, no = number(Lat, lat); no != nil {
		return no
	}
	if j.At.Lng, no = number(Lng, lng); no != nil {
		return no
	}
	if j.At.Lat == 0 && j.At.Lng == 0 {
		return reject(Placeholder, "0,0 stands for an unknown place")
	}
	return nil // Normalize looks at the range
}

// number reads a decimal number with a point: no decimal comma, no grouping, no
// unit, no hexadecimal, no NaN.
func number(f Field, s string) (float64, *Rejection) {
	if strings.Trim(s, "0123456789.eE+-") != "" || !strings.ContainsAny(s, "0123456789") {
		return 0, reject(TextInNumber, "%s: %.60q is not a decimal number", f, s)
	}
	x, err := strconv.ParseFloat(s, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, reject(OutOfRange, "%s: %.60q", f, s)
	case err != nil:
		return 0, reject(TextInNumber, "%s: %.60q is not a decimal number", f, s)
	}
	return x, nil
}

// payPer gives other words for Pay.Per.
var payPer = map[string]string{
	"hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month",
	"yearly": "year", "annual": "year", "annually": "year",
}

func pay(p *store.Pay, v map[Field]string) *Rejection {
	p.Currency = v[Currency]
	p.Per = strings.ToLower(strings.TrimSpace(v[PayPer]))
	if s := payPer[p.Per]; s != "" {
		p.Per = s
	}
	s := strings.TrimSpace(v[Pay])
	if s == "" {
		return nil
	}
	units, no := number(Pay, s)
	if no != nil {
		return no
	}
	if units < 0 || units > store.MaxPay/100 {
		return reject(OutOfRange, "pay: %.60s is not 0..%.0f", s, float64(store.MaxPay)/100)
	}
	var ok bool
	if p.Amount, ok = store.Hundredths(units); !ok {
		return reject(BadValue, "pay: %.60s has more than two decimals", s)
	}
	return nil
}

func yes(s string) (bool, *Rejection) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "", "false", "no", "n", "f", "0":
		return false, nil
	case "true", "yes", "y", "t", "1":
		return true, nil
	}
	return false, reject(BadValue, "remote: %.60q is neither true nor false", s)
}

// The forms of a date: ISO 8601 and what databases write. Fractions of a second
// may follow the seconds in each.
var (
	zonedForms = []string{time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z07:00",
		"2006-01-02 15:04:05 Z07:00", "2006-01-02 15:04:05Z0700", "2006-01-02 15:04:05 Z0700",
		"2006-01-02 15:04:05Z07", "2006-01-02 15:04:05 UTC", "2006-01-02T15:04Z07:00", "20060102T150405Z0700"}
	unzonedForms = []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "20060102T150405"}
	dayForms     = []string{time.DateOnly, "20060102"}
)

// date reads a date and reports whether it says its time zone, which one without
// a time of day need not. Such a date is the first moment of the day, or, at the
// end of a period, the last.
func date(f Field, s string, end bool) (t time.Time, zoned bool, no *Rejection) {
	s = strings.TrimSpace(s)
	for _, form := range dayForms {
		if t, err := time.Parse(form, s); err == nil {
			if end {
				t = t.Add(24*time.Hour - time.Millisecond)
			}
			return t, true, nil
		}
	}
	for _, form := range zonedForms {
		if t, err := time.Parse(form, s); err == nil {
			return t, true, nil
		}
	}
	for _, form := range unzonedForms {
		if t, err := time.Parse(form, s); err == nil {
			return t, false, nil
		}
	}
	return t, false, reject(BadDate, "%s: %.60q is not a date like 2026-01-31 or 2026-01-31T12:00:00Z", f, s)
}
