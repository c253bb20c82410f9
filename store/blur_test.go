package store_test

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

const blurSecret = "0123456789abcdef-secret"

func newBlur(t *testing.T, secret string, radius float64) *store.Blur {
	t.Helper()
	b, err := store.NewBlur([]byte(secret), radius)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBlurPlace: within the radius, the same each time, and a place that geo takes, also at the poles
// and on both sides of the antimeridian.
func TestBlurPlace(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	places := []geo.LatLng{{Lat: 90}, {Lat: -90, Lng: 180}, {Lat: 89.99999, Lng: -45}, {Lng: 180}, {Lat: -1e-7, Lng: -179.9999999}, {}, {Lat: 60, Lng: 179.99999}}
	for range 3000 {
		places = append(places, geo.LatLng{Lat: r.Float64()*180 - 90, Lng: 180 - r.Float64()*360})
	}
	for _, radius := range []float64{store.MinBlurRadius, 300, 5000, store.MaxBlurRadius} {
		b := newBlur(t, blurSecret, radius)
		far, sum := 0.0, 0.0
		for _, p := range places {
			j := store.Job{Requester: "ann", At: p}
			got := b.Place(&j)
			if err := got.Validate(); err != nil {
				t.Fatalf("%v is blurred to %v: %v", p, got, err)
			}
			d := geo.NewOrigin(p).Distance(got)
			if d > radius {
				t.Fatalf("%v is blurred by %v m, more than %v", p, d, radius)
			}
			if again := b.Place(&j); again != got {
				t.Fatalf("%v is blurred to %v and to %v", p, got, again)
			}
			far, sum = max(far, d), sum+d
		}
		// Uniform in a disc: in the mean two thirds of the reach from its middle.
		if mean := sum / float64(len(places)); far < 0.8*radius || mean < 0.4*radius || mean > 0.6*radius {
			t.Errorf("%v m: at most %v, in the mean %v", radius, far, mean)
		}
	}
}

// TestBlurHolds: nothing to take a mean of.
func TestBlurHolds(t *testing.T) {
	b := newBlur(t, blurSecret, 600) // squares of 100 m
	home := geo.LatLng{Lat: 37.56631, Lng: 126.97794}
	seen := map[geo.LatLng]bool{}
	r := rand.New(rand.NewPCG(3, 4))
	for _, whose := range []store.Job{{Requester: "ann"}, {Requester: "ann", Employer: "Ann's"}, {Source: "a", Employer: "Ann's"}} {
		clear(seen)
		for n := range 500 {
			j := whose
			j.ID, j.SourceID, j.Title, j.At = store.ID(n+1), fmt.Sprint(n), fmt.Sprint(n), home
			j.At.Lat += (r.Float64() - 0.5) * 2e-4 // as a phone says, give or take 11 m
			j.At.Lng += (r.Float64() - 0.5) * 2e-4
			seen[b.Place(&j)] = true
		}
		if len(seen) > 4 { // the squares that meet in a corner
			t.Errorf("one home of %+v is blurred to %d points", whose, len(seen))
		}
	}

	// Every other input gives another point.
	ann := store.Job{Requester: "ann", At: home}
	bob := store.Job{Requester: "bob", At: home}
	imported := store.Job{Source: "a", SourceID: "b", At: home}
	shifted := store.Job{Source: "ab", SourceID: "", At: home}
	employer := store.Job{Source: "a", SourceID: "b", Employer: "b", At: home}
	other := store.Job{Source: "a", SourceID: "b", Employer: "c", At: home}
	points := map[geo.LatLng]string{}
	for name, p := range map[string]geo.LatLng{
		"ann": b.Place(&ann), "bob": b.Place(&bob), "imported": b.Place(&imported), "shifted": b.Place(&shifted),
		"an employer": b.Place(&employer), "another employer": b.Place(&other),
		"another secret": newBlur(t, blurSecret+"x", 600).Place(&ann), "another radius": newBlur(t, blurSecret, 601).Place(&ann),
	} {
		if other, is := points[p]; is {
			t.Errorf("%s and %s are blurred to one point", name, other)
		}
		points[p] = name
	}
}

func TestNoBlur(t *testing.T) {
	var none *store.Blur
	j := store.Job{At: geo.LatLng{Lat: 1.23456789, Lng: 2}}
	if none.Place(&j) != j.At || none.Key() != "" {
		t.Error("no blur is one")
	}
	j = store.Job{Remote: true}
	if got := newBlur(t, blurSecret, 100).Place(&j); got != j.At {
		t.Errorf("a remote job got a place: %v", got)
	}
}

func TestBlurShowsNoSecret(t *testing.T) {
	b := newBlur(t, blurSecret, 100)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "blur", b)
	for _, s := range []string{fmt.Sprint(b), fmt.Sprintf("%v %+v %#v %s %x %q", b, b, b, b, b, b), fmt.Sprintf("%v", *b), b.Key(), log.String()} {
		if strings.Contains(s, "0123456789abcdef") || strings.Contains(s, fmt.Sprintf("%x", blurSecret)) || strings.Contains(s, "48 49 50") {
			t.Errorf("the secret shows in %s", s)
		}
	}
	if b.Key() == newBlur(t, blurSecret, 101).Key() || b.Key() == newBlur(t, blurSecret+"x", 100).Key() {
		t.Error("two blurs have one key")
	}
	for _, radius := range []float64{0, 9.9, 100_001, math.NaN(), math.Inf(1), -5} {
		if _, err := store.NewBlur([]byte(blurSecret), radius); err == nil {
			t.Errorf("a radius of %v is taken", radius)
		}
	}
	if _, err := store.NewBlur([]byte("short"), 100); err == nil || strings.Contains(err.Error(), "short") {
		t.Errorf("a short secret: %v", err)
	}
}
