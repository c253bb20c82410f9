package store_test

import (
	"fmt"
	"time"

	"github.com/nearjob/nearjob/store"
)

// What can be done with a job from where it stands, and what is said to somebody
// who tries something else.
func ExampleDecide() {
	fmt.Println(store.Allowed(store.RoleRequester, store.FinishReported, store.AppFinished, false))

	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	job := store.Job{ID: 7, Title: "Walk a dog", State: store.Matched, Requester: "rita"}
	ann := store.Application{ID: 8, Job: 7, Worker: "ann", State: store.AppAccepted}
	_, err := store.Decide(store.Command{Action: store.ActFinish, By: "ann", At: now}, job, &ann)
	fmt.Println(err)

	d, err := store.Decide(store.Command{Action: store.ActStart, By: "ann", At: now}, job, &ann)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Job().State)
	// Output:
	// [confirm rework reject cancel]
	// cannot finish: job 7 is matched and the application accepted; possible now: start, resign
	// in_progress
}
