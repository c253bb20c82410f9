package notify_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/nearjob/nearjob/api/notify"
	"github.com/nearjob/nearjob/store"
)

func ExampleTexts() {
	texts, err := notify.NewTexts()
	if err != nil {
		fmt.Println(err)
		return
	}
	m := store.Message{ID: 1, Job: 2, Recipient: "lee", Role: store.RoleRequester, Action: store.ActApply, Title: "Paint a fence", Note: "I can come today."}
	for _, wish := range []string{"", "ko-KR"} {
		n, err := texts.Note(m, wish)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(n.Title)
		fmt.Println(n.Body)
	}
	// Output:
	// New applicant
	// Somebody applied for “Paint a fence”. They wrote: “I can come today.”
	// 새로운 지원자가 있어요
	// ‘Paint a fence’ 일에 새로운 지원자가 있어요. 남긴 말: “I can come today.”
}

func ExampleBackoff() {
	b := notify.Backoff{Base: time.Second, Max: 5 * time.Minute}
	for _, attempt := range []int{1, 2, 5, 10} {
		fmt.Println(attempt, "at most", b.Bound(attempt))
	}
	// Output:
	// 1 at most 1s
	// 2 at most 2s
	// 5 at most 16s
	// 10 at most 5m0s
}

func ExampleRetryAfter() {
	fmt.Println(notify.RetryAfter(http.Header{"Retry-After": {"120"}}, time.Now()))
	// Output: 2m0s
}
