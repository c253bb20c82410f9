package search_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/search"
	"github.com/nearjob/nearjob/store/sqlite"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "nearjob")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	engine, err := sqlite.Open(ctx, filepath.Join(dir, "jobs.db"), sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	if err := engine.Migrate(ctx); err != nil {
		log.Fatal(err)
	}

	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	jobs := []store.Job{
		{ID: 1, Title: "Walk the dog", At: geo.LatLng{Lat: 37.566, Lng: 126.978}, Posted: now},
		{ID: 2, Title: "Carry a sofa", At: geo.LatLng{Lat: 37.570, Lng: 126.977}, Posted: now},
		{ID: 3, Title: "Mend a roof", At: geo.LatLng{Lat: 35.180, Lng: 129.076}, Posted: now},
	}
	for i := range jobs {
		if err := jobs[i].Normalize(); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := engine.Save(ctx, jobs); err != nil {
		log.Fatal(err)
	}

	finder := search.New(engine, func() time.Time { return now })
	for _, strategy := range []string{"bbox", "s2"} {
		page, err := finder.Find(ctx, store.Query{
			Center:   geo.LatLng{Lat: 37.5663, Lng: 126.9779},
			Radius:   5000,
			Strategy: strategy,
		})
		if err != nil {
			log.Fatal(err)
		}
		for _, found := range page.Jobs {
			fmt.Printf("%s: %s, %.1f m\n", strategy, found.Job.Title, found.Distance)
		}
	}
	// Output:
	// bbox: Walk the dog, 34.5 m
	// bbox: Carry a sofa, 419.0 m
	// s2: Walk the dog, 34.5 m
	// s2: Carry a sofa, 419.0 m
}
