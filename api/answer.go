package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/search"
)

// job is a job in an answer. Pointers are for what may be absent: 0 is a
// coordinate and a distance like any other.
type job struct {
	ID          store.ID  `json:"id" example:"7318349394477056" doc:"The id: a string of digits, since JavaScript loses digits past 2^53."`
	Title       string    `json:"title" example:"Carry a sofa to the third floor" doc:"What is to be done."`
	Description string    `json:"description,omitempty" example:"Two people, half an hour." doc:"The whole text. Only in /v1/jobs/{id}."`
	Category    string    `json:"category,omitempty" example:"moving" doc:"The category, in lower case."`
	Employer    string    `json:"employer,omitempty" example:"Kenyon College" doc:"Who offers the job."`
	Lat         *float64  `json:"lat,omitempty" minimum:"-90" maximum:"90" example:"40.7143" doc:"Latitude in degrees. Absent for a remote job. See approximate."`
	Lng         *float64  `json:"lng,omitempty" minimum:"-180" maximum:"180" example:"-74.006" doc:"Longitude in degrees. Absent for a remote job. See approximate."`
	Approximate bool      `json:"approximate,omitempty" example:"false" doc:"Whether lat and lng are a place nearby: on a server that hides places, only the requester and the worker who has the job see the exact one. Absent where they are exact."`
	Remote      bool      `json:"remote" example:"false" doc:"Whether the job has no place."`
	DistanceM   *float64  `json:"distance_m,omitempty" minimum:"0" example:"1234.5678" doc:"Great-circle distance from the query's place, or from the box's centre, in metres, not rounded; where places are hidden, it is to the one that others see, also for the requester. Absent for a remote job."`
	Pay         *pay      `json:"pay,omitempty" doc:"What the job pays. Absent where that is not stated."`
	State       string    `json:"state" enum:"open,matched,in_progress,finish_reported,completed,cancelled,expired" example:"open" doc:"Where the job stands. A search finds open jobs only."`
	Posted      time.Time `json:"posted" example:"2026-01-31T12:00:00Z" doc:"When the job was posted, in UTC."`
	Expires     time.Time `json:"expires,omitzero" example:"2026-02-28T12:00:00Z" doc:"When the job ends by itself. Absent if never."`
	URL         string    `json:"url,omitempty" example:"https://example.com/jobs/1" doc:"Where to read more."`
	Source      string    `json:"source" example:"nearjob" doc:"Where the job came from."`
	SourceID    string    `json:"source_id" example:"7318349394477056" doc:"The job's id there. Of a job that was posted here, its own id."`

	// For those who have to do with it.
	Requester     store.UserID `json:"requester,omitempty" example:"u-42" doc:"Who posted it. Only the requester sees it."`
	Version       int64        `json:"version,omitempty" minimum:"0" example:"1" doc:"Grows by one with each change. In quotes it is the ETag. Absent from searches."`
	Applications  *counts      `json:"applications,omitempty" doc:"How many have applied. Only the requester sees it, in /v1/jobs/{id}."`
	ApplicationID store.ID     `json:"application_id,omitzero" example:"7318349394477060" doc:"The caller's own application; for the requester, the one that holds the job. Only in /v1/jobs/{id}."`
	Actions       *[]action    `json:"actions,omitempty" nullable:"false" doc:"What the caller can do now. Only for the requester and who has applied."`
}

type pay struct {
	Amount   float64 `json:"amount" minimum:"0" example:"25.5" doc:"The amount in units of the currency, to the hundredth; of a range, its lower end."`
	Currency string  `json:"currency,omitempty" example:"EUR" doc:"ISO 4217 code. Absent where the source names none."`
	Per      string  `json:"per,omitempty" enum:"job,hour,day,week,month,year" example:"hour" doc:"What the amount is for. Absent where that is not stated."`
}

// newJob is a job with its whole text, as those see it who have no part in it;
// distance is +Inf where there is none.
func (a *api) newJob(j *store.Job, distance float64) job {
	out := job{
		ID: j.ID, Title: j.Title, Description: j.Description, Category: j.Category, Employer: j.Employer,
		Remote: j.Remote, State: string(j.State), Posted: j.Posted.UTC(), Expires: j.Expires.UTC(),
		URL: j.URL, Source: j.Source, SourceID: j.SourceID,
	}
	if j.Source == store.SourceHere {
		// What is stored can be a hash of the request, and the place to be found by trying.
		out.SourceID = j.ID.String()
	}
	if !j.Remote {
		at := j.At
		if a.deps.Place != nil {
			at = a.deps.Place(j)
		}
		out.Lat, out.Lng, out.Approximate = &at.Lat, &at.Lng, at != j.At
	}
	if !math.IsInf(distance, 1) {
		out.DistanceM = &distance
	}
	if j.Pay != (store.Pay{}) {
		out.Pay = &pay{Amount: j.Pay.Units(), Currency: j.Pay.Currency, Per: j.Pay.Per}
	}
	return out
}

// showPlace gives a job its exact place, for who has a part in it: the requester,
// and the worker of the application that holds it.
func (out *job) showPlace(j *store.Job) {
	if !j.Remote {
		out.Lat, out.Lng, out.Approximate = &j.At.Lat, &j.At.Lng, false
	}
}

// jobs is the answer to a search.
type jobs struct {
	Jobs       []job               `json:"jobs" nullable:"false" doc:"The jobs of this page."`
	NextCursor string              `json:"next_cursor,omitempty" example:"AZ5v0Xr1dQb7QJLAAAAAAAAAGgAAAAAAAAABAAAAFA" doc:"Ask again with this as cursor for the next page. Absent on the last page."`
	Stats      stats               `json:"stats" doc:"What the answer cost."`
	Explain    *search.Explanation `json:"explain,omitempty" doc:"The SQL and the plans, round by round, if asked for."`
}

type stats struct {
	Strategy   string  `json:"strategy" example:"s2" doc:"The strategy that answered."`
	Rounds     int     `json:"rounds" example:"1" doc:"How often it went to the database to look further."`
	Statements int     `json:"statements" example:"2" doc:"Statements sent to the database."`
	Candidates int     `json:"candidates" example:"31" doc:"Rows read from the search tables."`
	Hits       int     `json:"hits" example:"21" doc:"Candidates in the area that pass the filter."`
	DatabaseMS float64 `json:"database_ms" example:"0.84" doc:"Milliseconds waiting for and reading from the database."`
	ComputeMS  float64 `json:"compute_ms" example:"0.11" doc:"Milliseconds for everything else."`
}

// newJobs is the answer to a user, or to nobody. The jobs of a search are open, so
// nobody holds one of them.
func (a *api) newJobs(p store.Page, x *search.Explanation, user store.UserID) jobs {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	s := p.Stats
	out := jobs{
		Jobs:       make([]job, len(p.Jobs)),
		NextCursor: p.Next,
		Stats: stats{
			Strategy: s.Strategy, Rounds: s.Rounds, Statements: s.Statements,
			Candidates: s.Candidates, Hits: s.Hits, DatabaseMS: ms(s.Database), ComputeMS: ms(s.Compute),
		},
		Explain: x,
	}
	for i := range p.Jobs {
		out.Jobs[i] = a.newJob(&p.Jobs[i].Job, p.Jobs[i].Distance)
		if isRequester(&p.Jobs[i].Job, user) {
			out.Jobs[i].showPlace(&p.Jobs[i].Job)
		}
		out.Jobs[i].Description = "" // up to 20,000 characters each
	}
	return out
}

// featureCollection is the answer to a search as GeoJSON (RFC 7946).
type featureCollection struct {
	Type       string              `json:"type" enum:"FeatureCollection" example:"FeatureCollection"`
	Features   []feature           `json:"features" nullable:"false" doc:"The jobs of this page."`
	NextCursor string              `json:"next_cursor,omitempty" doc:"Ask again with this as cursor for the next page. Absent on the last page."`
	Stats      stats               `json:"stats" doc:"What the answer cost."`
	Explain    *search.Explanation `json:"explain,omitempty" doc:"The SQL and the plans, round by round, if asked for."`
}

type feature struct {
	Type       string   `json:"type" enum:"Feature" example:"Feature"`
	ID         store.ID `json:"id" doc:"The job's id."`
	Geometry   geometry `json:"geometry"`
	Properties job      `json:"properties" doc:"The job as in JSON."`
}

// geometry is a Point, or null for a remote job.
type geometry struct {
	at *geo.LatLng
}

func (g geometry) MarshalJSON() ([]byte, error) {
	if g.at == nil {
		return []byte("null"), nil
	}
	return json.Marshal(struct {
		Type        string     `json:"type"`
		Coordinates [2]float64 `json:"coordinates"`
	}{"Point", [2]float64{g.at.Lng, g.at.Lat}})
}

func (geometry) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "Where the job is; null for a remote job.",
		OneOf: []*huma.Schema{
			{
				Type: huma.TypeObject, Required: []string{"type", "coordinates"},
				Properties: map[string]*huma.Schema{
					"type": {Type: huma.TypeString, Enum: []any{"Point"}},
					"coordinates": {
						Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeNumber}, MinItems: ptr(2), MaxItems: ptr(2),
						Description: "Longitude, then latitude, in degrees.", Examples: []any{[]any{-74.006, 40.7143}},
					},
				},
			},
			{Type: "null"},
		},
	}
}

// geoJSON is what GeoJSON has another form for.
type geoJSON interface {
	geoJSON() any
}

var (
	_ geoJSON = jobs{}
	_ geoJSON = job{}
)

func (j job) geoJSON() any {
	f := feature{Type: "Feature", ID: j.ID, Properties: j}
	if !j.Remote {
		f.Geometry.at = &geo.LatLng{Lat: *j.Lat, Lng: *j.Lng}
	}
	return f
}

func (a jobs) geoJSON() any {
	out := featureCollection{
		Type: "FeatureCollection", Features: make([]feature, len(a.Jobs)),
		NextCursor: a.NextCursor, Stats: a.Stats, Explain: a.Explain,
	}
	for i, j := range a.Jobs {
		out.Features[i] = j.geoJSON().(feature)
	}
	return out
}

// writeJSON encodes before it writes. What cannot be encoded is a panic, which
// becomes a problem: at an error huma would write text after a status of 200. A
// failed write is the response's to remember.
func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Errorf("encode an answer: %w", err))
	}
	_, _ = w.Write(b.Bytes())
	return nil
}

func writeGeoJSON(w io.Writer, v any) error {
	if g, ok := v.(geoJSON); ok {
		v = g.geoJSON()
	}
	return writeJSON(w, v)
}
