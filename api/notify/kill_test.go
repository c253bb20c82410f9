package notify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/nearjob/nearjob/api/notify"
	"github.com/nearjob/nearjob/api/notify/webhook"
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/sqlite"
)

// killFile tells the test binary, started by TestKill, that it is a node to be
// killed: the store that it works on.
const killFile = "NEARJOB_TEST_NOTIFY_KILL_FILE"

const killSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// openStore opens a store of TestKill.
func openStore(t *testing.T, path string) *sqlite.Engine {
	t.Helper()
	e, err := sqlite.Open(t.Context(), path, sqlite.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// node dispatches until it is killed.
func node(t *testing.T, path string) {
	e := openStore(t, path)
	d, err := notify.New(notify.Deps{
		Outbox: e, Profiles: e, Texts: texts(t),
		Channels: map[string]notify.Channel{"webhook": webhook.New(e, webhook.Options{
			AllowHTTP: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		})},
	}, notify.Options{
		Node: fmt.Sprint(os.Getpid()), Attempts: 100, Timeout: time.Second, Lease: 2 * time.Second, Poll: 20 * time.Millisecond,
		Backoff: notify.Backoff{Base: 10 * time.Millisecond, Max: 100 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestKill has two processes deliver the messages of real transitions to a
// webhook receiver, and kills one after the other with a signal that none can
// catch, each time after so many deliveries. Every message arrives, in the
// order of its job, and what comes twice is the same under the same id.
func TestKill(t *testing.T) {
	if path := os.Getenv(killFile); path != "" {
		node(t, path)
		return
	}
	jobs, kills := 100, 12
	if testing.Short() {
		jobs, kills = 8, 2
	}
	const applicants, edits = 10, 9 // each makes a message by applying, and gets one by each edit
	total := jobs * applicants * (1 + edits)

	began := time.Now()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kill.db")
	e := openStore(t, path)
	if err := e.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	ids, err := store.NewIDs(time.Now, 1)
	if err != nil {
		t.Fatal(err)
	}
	r := newReceiver(t)
	for _, u := range append([]store.UserID{"requester"}, workers(applicants)...) {
		hook := store.Webhook{ID: ids.Next(), User: u, URL: r.URL, Secret: killSecret, Created: time.Now()}
		if err := e.PutWebhook(t.Context(), hook); err != nil {
			t.Fatal(err)
		}
	}
	messages(t, e, ids, jobs, applicants, edits)
	if d, err := e.Depth(t.Context()); err != nil || d.Pending != total {
		t.Fatalf("the outbox holds %+v, %v; want %d", d, err, total)
	}

	t.Logf("%d messages are waiting after %v", total, time.Since(began))
	launch := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestKill$", "-test.timeout=10m")
		cmd.Env = append(os.Environ(), killFile+"="+path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	kill := func(cmd *exec.Cmd) {
		if err := cmd.Process.Kill(); err != nil {
			t.Errorf("a node ended by itself: %v", err)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("a node ended by itself")
		}
	}
	nodes := []*exec.Cmd{launch(), launch()}
	for n := range kills {
		r.wait(total * (n + 1) / (kills + 2))
		kill(nodes[0])
		nodes = append(nodes[1:], launch())
	}
	r.wait(total)
	for { // what was delivered is noted a moment later
		d, err := e.Depth(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d.Pending == 0 {
			if d.Delivered != total || d.Dead != 0 {
				t.Errorf("the outbox ends as %+v", d)
			}
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, n := range nodes {
		kill(n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Logf("%d messages in %d calls, %d of them duplicates, under %d kills, after %v",
		len(r.bodies), r.calls, r.calls-len(r.bodies), kills, time.Since(began))
}

func workers(n int) []store.UserID {
	users := make([]store.UserID, n)
	for i := range users {
		users[i] = store.UserID(fmt.Sprintf("worker-%d", i))
	}
	return users
}

// messages fills the outbox by transitions: workers apply, and the requester edits.
func messages(t *testing.T, e *sqlite.Engine, ids *store.IDs, jobs, applicants, edits int) {
	t.Helper()
	for range jobs {
		j := store.Job{ID: ids.Next(), Requester: "requester", Title: "Paint a fence", At: geo.LatLng{Lat: 37, Lng: 127}, Posted: time.Now()}
		if _, err := e.Post(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		for _, w := range workers(applicants) {
			if _, err := e.Act(t.Context(), store.Command{Action: store.ActApply, Job: j.ID, By: w, Message: "I can", At: time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		for n := range edits {
			change := func(j *store.Job) error {
				j.Title = fmt.Sprintf("Paint %d fences", n+2)
				return nil
			}
			if _, err := e.Edit(t.Context(), store.Edit{Job: j.ID, By: "requester", At: time.Now(), Change: change}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// receiver is a webhook's far end.
type receiver struct {
	*httptest.Server
	t        *testing.T
	verifier *standardwebhooks.Webhook

	mu      sync.Mutex
	calls   int               // that were answered as delivered
	bodies  map[string]string // by webhook-id
	last    map[store.ID]store.ID
	arrived chan struct{}
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	v, err := standardwebhooks.NewWebhook(killSecret)
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{t: t, verifier: v, bodies: make(map[string]string), last: make(map[store.ID]store.ID), arrived: make(chan struct{}, 1)}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the node was killed while it wrote
	}
	if rand.IntN(50) == 0 {
		http.Error(w, "injected", http.StatusInternalServerError)
		return
	}
	if err := r.verifier.Verify(body, req.Header); err != nil {
		r.t.Errorf("the signature: %v", err)
	}
	var e webhook.Event
	if err := json.Unmarshal(body, &e); err != nil {
		r.t.Errorf("the body: %v", err)
	}
	id := req.Header.Get("webhook-id")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	if id != webhook.ID(e.Data.ID) {
		r.t.Errorf("the call %s carries the message %s", id, e.Data.ID)
	}
	switch was, twice := r.bodies[id]; {
	case !twice:
		r.bodies[id] = string(body)
		if e.Data.ID < r.last[e.Data.Job] {
			r.t.Errorf("job %s: message %s came first after %s", e.Data.Job, e.Data.ID, r.last[e.Data.Job])
		}
		r.last[e.Data.Job] = e.Data.ID
		select {
		case r.arrived <- struct{}{}:
		default:
		}
	case was != string(body):
		r.t.Errorf("a duplicate differs: %s and %s", was, body)
	}
	w.WriteHeader(http.StatusNoContent)
}

// wait waits until n messages have arrived.
func (r *receiver) wait(n int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Minute)
	defer cancel()
	for {
		r.mu.Lock()
		have := len(r.bodies)
		r.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-r.arrived:
		case <-ctx.Done():
			r.t.Fatalf("only %d of %d messages arrived", have, n)
		}
	}
}
