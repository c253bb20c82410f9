package api_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/api"
	"github.com/nearjob/nearjob/store"
)

// TestAlertTells: from the request that makes an alert to the message that it leads to.
func TestAlertTells(t *testing.T) { onEngines(t, testAlertTells) }

func testAlertTells(t *testing.T, engine string) {
	m := newMarketOn(t, engine, func(d *api.Deps, _ *api.Options) { d.Limits = nil })
	match := func() {
		t.Helper()
		if _, err := store.MatchPending(t.Context(), m.engine, 100, m.clock); err != nil {
			t.Fatal(err)
		}
	}
	told := func(user string) (out []string) {
		t.Helper()
		for _, x := range m.must(200, user, "GET", "/v1/me/messages", "")["messages"].([]any) {
			x := x.(object)
			out = append(out, fmt.Sprint(x["action"], " ", x["role"], " ", x["job_id"], " ", x["application_id"]))
		}
		return out
	}
	key := []string{"Idempotency-Key", "a"}
	const here = `{"lat":40.7143,"lng":-74.006,"radius_m":1,"categories":["Moving","moving"],"min_pay":25.50}`
	first := m.call("kim", "POST", "/v1/me/alerts", here, key...)
	again := m.call("kim", "POST", "/v1/me/alerts", here, key...)
	if first.Code != 201 || first.Body.String() != again.Body.String() || again.Header().Get("Idempotency-Replayed") != "true" ||
		first.Header().Get("Location") != "/v1/me/alerts" {
		t.Fatalf("%d %s %v\n%d %s", first.Code, first.Body, first.Header(), again.Code, again.Body)
	}
	if n := len(m.must(200, "kim", "GET", "/v1/me/alerts", "")["alerts"].([]any)); n != 1 {
		t.Errorf("the same request has made %d alerts", n)
	}
	// What is listed is what was answered.
	list := m.call("kim", "GET", "/v1/me/alerts", "").Body.String()
	if want := `{"alerts":[` + strings.TrimSpace(first.Body.String()) + "]}\n"; list != want {
		t.Errorf("listed as %s, want %s", list, want)
	}
	for user, body := range map[string]string{
		"dear":  `{"lat":40.7143,"lng":-74.006,"radius_m":1,"min_pay":25.51}`,
		"far":   `{"lat":40.72,"lng":-74.006,"radius_m":500}`,
		"other": `{"lat":40.7143,"lng":-74.006,"radius_m":500,"employer":"Kenyon College"}`,
		"owner": `{"lat":40.7143,"lng":-74.006,"radius_m":500}`,
		"gone":  `{"lat":40.7143,"lng":-74.006,"radius_m":500}`,
	} {
		m.must(201, user, "POST", "/v1/me/alerts", body)
	}
	m.must(204, "gone", "DELETE", "/v1/me/alerts/"+m.must(200, "gone", "GET", "/v1/me/alerts", "")["alerts"].([]any)[0].(object)["id"].(string), "")

	job := strings.TrimPrefix(m.post("owner"), "/v1/jobs/")
	match()
	match() // nobody is told twice
	if got, want := told("kim"), []string{"opened worker " + job + " <nil>"}; !slices.Equal(got, want) {
		t.Errorf("kim was told %q, want %q", got, want)
	}
	for _, user := range []string{"dear", "far", "other", "owner", "gone"} {
		if got := told(user); len(got) != 0 {
			t.Errorf("%s was told %q", user, got)
		}
	}
}

// TestAlertBodies: every fault of an alert is told at once, each with the limits.
func TestAlertBodies(t *testing.T) {
	m := newMarket(t, func(d *api.Deps, _ *api.Options) { d.Limits = nil })
	for _, tt := range []struct {
		body string
		want []string
	}{
		{`{}`, []string{"lat: is missing", "lng: is missing", "radius_m: is missing: want 1..100000 metres"}},
		{`{"lat":91,"lng":"x","radius_m":100000.1,"min_pay":1.234,"employer":"a\nb","categories":"moving"}`, []string{
			"lat: 91 is not -90..90 degrees", "lng: is text, not a number", "radius_m: 100000.1 is not 1..100000 metres",
			"min_pay: ", "employer: has a control character", "categories: is text, not a list",
		}},
		{`{"lat":1,"lng":1,"radius_m":0.5,"categories":["a",""]}`, []string{"radius_m: 0.5 is not 1..100000", "categories: is empty"}},
		{`{"lat":1,"lng":1,"radius_m":5,"categories":["a\u0000"]}`, []string{"categories: has a control character"}},
		{`{"lat":1,"lng":1,"radius_m":5,"categories":["a",1]}`, []string{"categories[1]: is a number, not text"}},
		{`{"lat":1,"lng":1,"radius_m":5,"categories":null}`, []string{"categories: is null, not a list: leave it out"}},
		{`{"lat":1,"lng":1,"radius_m":5,"categories":["` + strings.Join(strings.Split("abcdefghijklmnopqrstu", ""), `","`) + `"]}`,
			[]string{"categories: 21 categories are more than 20"}},
		{`{"lat":1,"lng":1,"radius_m":5,"id":"7"}`, []string{"id: is not known here"}},
		{`{"lat":1,"lat":2,"lng":1,"radius_m":5}`, []string{"lat: is given twice"}},
		{`{"lat":1,"lng":1,"radius_m":1e999}`, []string{"radius_m: "}},
		{`{"lat":1,"lng":1,"radius_m":5,"remote":"include"}`, []string{"remote: is not known here"}},
	} {
		p := wantProblem(t, m.call("kim", "POST", "/v1/me/alerts", tt.body), 422)
		var got []string
		for _, e := range p.Errors {
			got = append(got, e.Field+": "+e.Reason)
		}
		for _, want := range tt.want {
			if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) {
				t.Errorf("%s: no %q in %q", tt.body, want, got)
			}
		}
		if len(got) != len(tt.want) {
			t.Errorf("%s: %d faults, want %d: %q", tt.body, len(got), len(tt.want), got)
		}
	}
	m.must(422, "kim", "DELETE", "/v1/me/alerts/x", "")
	m.must(422, "kim", "DELETE", "/v1/me/alerts/7", `{}`)
	m.must(422, "kim", "GET", "/v1/me/alerts?limit=0", "")
	if n := len(m.must(200, "kim", "GET", "/v1/me/alerts", "")["alerts"].([]any)); n != 0 {
		t.Errorf("%d alerts were made of faulty bodies", n)
	}
	// The edges are in.
	m.must(201, "kim", "POST", "/v1/me/alerts", `{"lat":-90,"lng":180,"radius_m":100000,"min_pay":0,"categories":[],"employer":""}`)
	m.must(201, "kim", "POST", "/v1/me/alerts", `{"lat":90,"lng":-180,"radius_m":1}`)
	// A cursor of one's own list is none of another's.
	next := m.must(200, "kim", "GET", "/v1/me/alerts?limit=1", "")["next_cursor"].(string)
	m.must(200, "kim", "GET", "/v1/me/alerts?limit=1&cursor="+next, "")
	m.must(422, "lee", "GET", "/v1/me/alerts?limit=1&cursor="+next, "")
}

// takenIDs is an alert book in which the first ids that are tried are other users'.
type takenIDs struct {
	store.AlertBook
	taken *int
	tried map[store.ID]bool
}

func (b takenIDs) PutAlert(ctx context.Context, a store.Alert) error {
	if b.tried[a.ID] {
		return fmt.Errorf("id %s is tried again", a.ID)
	}
	b.tried[a.ID] = true
	if *b.taken > 0 {
		*b.taken--
		return fmt.Errorf("%w: alert %s is another user's", store.ErrForbidden, a.ID)
	}
	return b.AlertBook.PutAlert(ctx, a)
}

func TestAlertIDs(t *testing.T) {
	taken := 0
	m := newMarket(t, func(d *api.Deps, _ *api.Options) { d.Alerts = takenIDs{d.Alerts, &taken, map[store.ID]bool{}} })
	const body = `{"lat":1,"lng":1,"radius_m":5}`
	for n, want := range []int{201, 201, 201, 500} {
		taken = n
		if w := m.call("kim", "POST", "/v1/me/alerts", body); w.Code != want {
			t.Errorf("with %d ids that are taken: %d %s", n, w.Code, w.Body)
		}
	}
}

// TestNoAlerts: without a book there is nothing of it, and without a market no book.
func TestNoAlerts(t *testing.T) {
	m := newMarket(t, func(d *api.Deps, _ *api.Options) { d.Alerts = nil })
	m.must(404, "kim", "GET", "/v1/me/alerts", "")
	if m.spec["paths"].(object)["/v1/me/alerts"] != nil {
		t.Error("alerts are described")
	}
	defer func() {
		if recover() == nil {
			t.Error("New does not panic")
		}
	}()
	fakeAPI(fake{}, func(d *api.Deps, _ *api.Options) { d.Alerts = m.engine })
}
