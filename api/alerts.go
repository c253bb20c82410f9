package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nearjob/nearjob/store"
)

type alertInput struct {
	Lat        *number  `json:"lat" minimum:"-90" maximum:"90" nullable:"false" example:"40.7143" doc:"Latitude of the middle, in degrees."`
	Lng        *number  `json:"lng" minimum:"-180" maximum:"180" nullable:"false" example:"-74.006" doc:"Longitude of the middle, in degrees."`
	RadiusM    *number  `json:"radius_m" minimum:"1" maximum:"100000" nullable:"false" example:"5000" doc:"Of jobs at most so many metres away, the edge included."`
	Categories []string `json:"categories,omitempty" maxItems:"20" nullable:"false" example:"[\"moving\",\"delivery\"]" doc:"Only of jobs in one of these categories. Left out: of any."`
	MinPay     *amount  `json:"min_pay,omitempty" example:"12.5" doc:"Only of jobs that pay at least this much, in units of their own currency with up to two decimals. Left out: of any."`
	Employer   *string  `json:"employer,omitempty" maxLength:"200" example:"Kenyon College" doc:"Only of jobs of this employer, spelled exactly so."`
}

// alert is an alert in an answer, which is its user's.
type alert struct {
	ID         store.ID  `json:"id" example:"7318349394477064" doc:"The id."`
	Lat        float64   `json:"lat" minimum:"-90" maximum:"90" example:"40.7143" doc:"Latitude of the middle, in degrees."`
	Lng        float64   `json:"lng" minimum:"-180" maximum:"180" example:"-74.006" doc:"Longitude of the middle, in degrees."`
	RadiusM    float64   `json:"radius_m" minimum:"1" maximum:"100000" example:"5000" doc:"How many metres a job may be away."`
	Categories []string  `json:"categories,omitempty" nullable:"false" example:"[\"delivery\",\"moving\"]" doc:"The categories, in lower case. Absent: any."`
	MinPay     float64   `json:"min_pay,omitempty" minimum:"0" example:"12.5" doc:"What a job must pay at least. Absent: anything."`
	Employer   string    `json:"employer,omitempty" example:"Kenyon College" doc:"The employer. Absent: anybody."`
	Created    time.Time `json:"created" example:"2026-01-31T12:00:00Z" doc:"When it was made, in UTC."`
}

type alertList struct {
	Alerts     []alert `json:"alerts" nullable:"false" doc:"The alerts of this page, the oldest first."`
	NextCursor string  `json:"next_cursor,omitempty" example:"AQEAZ5v0Xr1dQLcYwLs" doc:"Ask again with this as cursor for the next page. Absent on the last page."`
}

func newAlert(a *store.Alert) alert {
	return alert{
		ID: a.ID, Lat: a.Center.Lat, Lng: a.Center.Lng, RadiusM: a.Radius, Categories: a.Filter.Categories,
		MinPay: store.Pay{Amount: a.Filter.MinPay}.Units(), Employer: a.Filter.Employer, Created: a.Created.UTC(),
	}
}

func (a *api) alertEndpoints() []endpoint {
	return []endpoint{
		{
			method: http.MethodPost, path: "/v1/me/alerts", id: "add-my-alert", summary: "Add an alert", tag: "Me",
			about: "The caller is told, by a message whose action is opened, of every job that opens in the area from then on: when it is posted, and when its match falls through. " +
				"Of a job they are told once, however many of their alerts it fits, and never of their own, of one that they have applied for, or of a remote one. A user has at most 50 alerts: one more is refused with 409.",
			body: reflect.TypeFor[alertInput](), needed: true,
			answers: map[int]reflect.Type{http.StatusCreated: reflect.TypeFor[alert]()}, handle: a.addAlert,
		},
		{
			method: http.MethodGet, path: "/v1/me/alerts", id: "my-alerts", summary: "List my alerts", tag: "Me",
			about: "The oldest first.",
			paged: true, answers: map[int]reflect.Type{http.StatusOK: reflect.TypeFor[alertList]()}, handle: a.myAlerts,
		},
		{
			method: http.MethodDelete, path: "/v1/me/alerts/{id}", id: "delete-my-alert", summary: "Remove an alert", tag: "Me",
			about:   "Also answered with 204 where the caller has no such alert.",
			answers: map[int]reflect.Type{http.StatusNoContent: nil}, handle: a.deleteAlert,
		},
	}
}

// alert reads the alert of a body.
func (c *call) alert() store.Alert {
	var in alertInput
	c.fill(&in)
	out := store.Alert{ID: 1, User: c.user, Created: c.now} // the id is no fault of the body's
	for _, x := range []struct {
		field, want string
		n           *number
		to          *float64
	}{
		{"lat", "degrees", in.Lat, &out.Center.Lat}, {"lng", "degrees", in.Lng, &out.Center.Lng}, {"radius_m", "1..100000 metres", in.RadiusM, &out.Radius},
	} {
		if x.n == nil {
			c.add(x.field, "is missing: want %s", x.want)
		}
		*x.to = c.number(x.field, value(x.n), 0)
	}
	for i := range in.Categories {
		c.line("categories", &in.Categories[i])
	}
	if slices.ContainsFunc(c.list, func(f store.Fault) bool { return strings.HasPrefix(f.Field, "categories") }) {
		in.Categories = nil // they hold stand-ins for what could not be read
	}
	out.Filter = store.Filter{
		Categories: in.Categories, MinPay: c.hundredths("min_pay", value(in.MinPay)), Employer: c.line("employer", in.Employer),
	}
	c.merge(renamed(out.Normalize(), map[string]string{"category": "categories"}))
	return out
}

// addAlert adds an alert. An answer that is lost with the process may leave one
// more behind than the client knows of, which does no harm: its user is told of a job once.
func (a *api) addAlert(ctx context.Context, c *call) (reply, error) {
	out := c.alert()
	if err := c.err(); err != nil {
		return reply{}, err
	}
	for try := 0; ; try++ {
		out.ID = a.deps.IDs.Next()
		err := a.deps.Alerts.PutAlert(ctx, out)
		switch {
		case errors.Is(err, store.ErrForbidden) && try < 2: // another node has made the same id, for another user
		case errors.Is(err, store.ErrForbidden):
			return reply{}, fmt.Errorf("make an id for an alert: %v", err) // not wrapped: nothing is forbidden to the caller
		case err != nil:
			return reply{}, err
		default:
			return reply{status: http.StatusCreated, body: newAlert(&out), location: "/v1/me/alerts"}, nil
		}
	}
}

func (a *api) myAlerts(ctx context.Context, c *call) (reply, error) {
	k := c.keys("my-alerts", string(c.user))
	if err := c.err(); err != nil {
		return reply{}, err
	}
	list, err := a.deps.Alerts.MyAlerts(ctx, c.user, k)
	if err != nil {
		return reply{}, err
	}
	out := alertList{Alerts: []alert{}}
	list, out.NextCursor = cut(list, k, "my-alerts", string(c.user), func(x *store.Alert) int64 { return int64(x.ID) })
	for i := range list {
		out.Alerts = append(out.Alerts, newAlert(&list[i]))
	}
	return reply{status: http.StatusOK, body: out}, nil
}

func (a *api) deleteAlert(ctx context.Context, c *call) (reply, error) {
	id := c.pathID("id")
	if err := c.err(); err != nil {
		return reply{}, err
	}
	if err := a.deps.Alerts.DeleteAlert(ctx, c.user, id); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, nil
}
