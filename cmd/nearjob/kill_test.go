package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/nearjob/nearjob/api/auth"
	"github.com/nearjob/nearjob/api/notify/webhook"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/storetest"
	"github.com/nearjob/nearjob/testdata/testdb"
)

// asMain tells the test binary to be nearjob.
const asMain = "NEARJOB_TEST_AS_MAIN"

// cluster is nodes of the service on one database, each a process.
type cluster struct {
	t  *testing.T
	db string

	mu    sync.Mutex
	nodes []*node
}

type node struct {
	cmd *exec.Cmd
	log *buffer
	url string
}

// launch starts a node and waits until it serves.
func (c *cluster) launch() *node {
	c.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	n := &node{log: &buffer{}}
	n.cmd = exec.CommandContext(c.t.Context(), self, "serve", "--db", c.db, "--addr", "127.0.0.1:0", "--webhook-http", "--webhook-allow", "127.0.0.0/8",
		"--notify-timeout", "2s", "--rate-user", "1000000", "--rate-address", "1000000")
	n.cmd.Env = append(os.Environ(), asMain+"=1", "NEARJOB_JWT_SECRET="+testSecret)
	n.cmd.Stderr = n.log
	if err := n.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); n.url == ""; time.Sleep(5 * time.Millisecond) {
		if m := address.FindStringSubmatch(n.log.String()); m != nil {
			n.url = "http://" + m[1]
		} else if time.Now().After(deadline) {
			c.t.Fatalf("a node does not serve: %s", n.log)
		}
	}
	return n
}

// kill ends a node as nothing can be done about: with SIGKILL.
func (c *cluster) kill(n *node) {
	if err := n.cmd.Process.Kill(); err != nil {
		c.t.Errorf("a node ended by itself: %v\n%s", err, n.log)
	}
	var exit *exec.ExitError
	if err := n.cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
		c.t.Errorf("a node ended by itself: %v\n%s", err, n.log)
	}
}

// replace kills the node that has been up longest and starts another.
func (c *cluster) replace() {
	c.mu.Lock()
	old := c.nodes[0]
	c.mu.Unlock()
	c.kill(old)
	young := c.launch()
	c.mu.Lock()
	c.nodes = append(c.nodes[1:], young)
	c.mu.Unlock()
}

func (c *cluster) any() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[rand.IntN(len(c.nodes))].url
}

// user is somebody with a token.
type user struct {
	*cluster
	name, token string
}

func (c *cluster) user(name string) user {
	token, err := auth.Mint(testSecret, name, time.Hour, "", "", time.Now())
	if err != nil {
		c.t.Fatal(err)
	}
	return user{c, name, token}
}

// errBroken is a request of which nobody knows what became of it.
var errBroken = errors.New("no answer")

// once sends a request to some node.
func (u user) once(ctx context.Context, method, path, body string) (status int, object map[string]any, err error) {
	r, err := http.NewRequestWithContext(ctx, method, u.any()+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+u.token)
	if method == http.MethodPost {
		r.Header.Set("Idempotency-Key", fmt.Sprint(rand.Uint64()))
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, errors.Join(errBroken, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 500 {
		return 0, nil, errors.Join(errBroken, err, fmt.Errorf("%d %s", resp.StatusCode, text))
	}
	return resp.StatusCode, object, json.Unmarshal(text, &object)
}

// read reads until there is an answer.
func (u user) read(ctx context.Context, path string) (map[string]any, error) {
	for {
		status, object, err := u.once(ctx, http.MethodGet, path, "")
		switch {
		case errors.Is(err, errBroken) && ctx.Err() == nil:
			time.Sleep(time.Millisecond)
		case err == nil && status != http.StatusOK:
			return nil, fmt.Errorf("%s: %d %v", path, status, object)
		default:
			return object, err
		}
	}
}

// do does something as a careful client does: where no answer came, it looks whether
// it was done, and only if not it does it again. seen returns what it made.
func (u user) do(ctx context.Context, path, body string, seen func() (map[string]any, error)) (map[string]any, error) {
	for broken := false; ; broken = true {
		status, object, err := u.once(ctx, http.MethodPost, path, body)
		switch {
		case err == nil && status < 300:
			return object, nil
		case err == nil && (!broken || status != http.StatusConflict):
			return nil, fmt.Errorf("%s: %d %v", path, status, object)
		case err != nil && (!errors.Is(err, errBroken) || ctx.Err() != nil):
			return nil, err
		}
		if object, err := seen(); object != nil || err != nil {
			return object, err
		}
	}
}

// match takes a job from posting to confirmation.
func (c *cluster) match(ctx context.Context, ann, kim user, title string, done func()) error {
	// newest returns the first of a list if it is the one.
	newest := func(u user, path, list, field, want string) func() (map[string]any, error) {
		return func() (map[string]any, error) {
			answer, err := u.read(ctx, path+"?limit=1")
			if err != nil {
				return nil, err
			}
			if all := answer[list].([]any); len(all) > 0 && all[0].(map[string]any)[field] == want {
				return all[0].(map[string]any), nil
			}
			return nil, nil
		}
	}
	body := fmt.Sprintf(`{"title":%q,"lat":40.7143,"lng":-74.006}`, title)
	job, err := ann.do(ctx, "/v1/jobs", body, newest(ann, "/v1/me/jobs", "jobs", "title", title))
	if err != nil {
		return err
	}
	done()
	id := job["id"].(string)
	at := "/v1/jobs/" + id + "/applications"
	app, err := kim.do(ctx, at, "", newest(kim, "/v1/me/applications", "applications", "job_id", id))
	if err != nil {
		return err
	}
	done()
	for _, step := range []struct {
		user          user
		action, state string
	}{{ann, "accept", "accepted"}, {kim, "start", "started"}, {kim, "finish", "finished"}, {ann, "confirm", "confirmed"}} {
		application := app["id"].(string)
		if _, err := step.user.do(ctx, at+"/"+application+"/"+step.action, "", func() (map[string]any, error) {
			object, err := step.user.read(ctx, "/v1/applications/"+application)
			if err != nil || object["state"] != step.state {
				return nil, err
			}
			return object, nil
		}); err != nil {
			return err
		}
		done()
	}
	return nil
}

// receiver is the far end of everybody's webhooks. Now and then it fails.
type receiver struct {
	*httptest.Server
	t *testing.T

	mu        sync.Mutex
	verifiers map[string]*standardwebhooks.Webhook // by user
	calls     int                                  // that were answered as delivered
	bodies    map[string]string                    // by webhook-id
	last      map[store.ID]store.ID                // by job, the message that came last for the first time
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{t: t, verifiers: map[string]*standardwebhooks.Webhook{}, bodies: map[string]string{}, last: map[store.ID]store.ID{}}
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
	var e webhook.Event
	if err := json.Unmarshal(body, &e); err != nil {
		r.t.Errorf("the body: %v", err)
		return
	}
	id := req.Header.Get("webhook-id")
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.verifiers[string(e.Data.Recipient)]; v == nil || v.Verify(body, req.Header) != nil {
		r.t.Errorf("%s: the signature is not that of %s", id, e.Data.Recipient)
	}
	if id != webhook.ID(e.Data.ID) {
		r.t.Errorf("the call %s carries the message %s", id, e.Data.ID)
	}
	r.calls++
	switch was, twice := r.bodies[id]; {
	case !twice:
		r.bodies[id] = string(body)
		if e.Data.ID < r.last[e.Data.Job] {
			r.t.Errorf("job %s: message %s came first after %s", e.Data.Job, e.Data.ID, r.last[e.Data.Job])
		}
		r.last[e.Data.Job] = e.Data.ID
	case was != string(body):
		r.t.Errorf("a duplicate differs: %s and %s", was, body)
	}
	w.WriteHeader(http.StatusNoContent)
}

// TestKill kills nodes of the service with a signal that none can catch, one after the
// other, while users take jobs from posting to confirmation on them. What a user was
// told is so, nothing is done twice or by half, and every message arrives, in the
// order of its job; one that comes again is the same under the same id.
func TestKill(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testKill(t, tempDB(t)) })
	t.Run("mysql", func(t *testing.T) { testKill(t, testdb.MySQL(t)) })
}

func testKill(t *testing.T, db string) {
	const couples, steps = 8, 6
	jobs, kills := 1667, 20 // 10,002 transitions
	if testing.Short() {
		jobs, kills = 60, 3
	}
	e, err := database{DB: db, DBTimeout: time.Minute, DBConns: 4, AutoMigrate: true}.open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	c := &cluster{t: t, db: db}
	c.nodes = []*node{c.launch(), c.launch()}
	r := newReceiver(t)
	users := make([][2]user, couples)
	for i := range users {
		for k, name := range []string{"ann", "kim"} {
			u := c.user(fmt.Sprint(name, i))
			users[i][k] = u
			status, hook, err := u.once(t.Context(), http.MethodPost, "/v1/me/webhooks", fmt.Sprintf(`{"url":%q}`, r.URL))
			if err != nil || status != http.StatusCreated {
				t.Fatalf("a webhook: %d %v", status, err)
			}
			if r.verifiers[u.name], err = standardwebhooks.NewWebhook(hook["secret"].(string)); err != nil {
				t.Fatal(err)
			}
		}
	}

	began := time.Now()
	var next, done atomic.Int64
	var clients sync.WaitGroup
	for i := range couples {
		clients.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(jobs) {
					return
				}
				if err := c.match(t.Context(), users[i][0], users[i][1], fmt.Sprintf("Job %d", n), func() { done.Add(1) }); err != nil {
					t.Errorf("job %d: %v", n, err)
					return
				}
			}
		})
	}
	for n := range kills {
		for done.Load() < int64(jobs*steps*(n+1)/(kills+1)) && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		c.replace()
	}
	clients.Wait()
	if t.Failed() {
		t.FailNow()
	}
	acted := time.Since(began)

	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		d, err := e.Depth(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d.Pending == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("messages still wait: %+v", d)
		}
	}
	for _, n := range c.nodes {
		c.kill(n)
	}
	checkKilled(t, e, r, users, jobs)
	t.Logf("%d transitions in %v under %d kills; %d messages in %d calls, %d of them duplicates, after %v",
		jobs*steps, acted, kills, len(r.bodies), r.calls, r.calls-len(r.bodies), time.Since(began))
}

// checkKilled looks at what is stored, and whether each message of it has arrived.
func checkKilled(t *testing.T, e engine, r *receiver, users [][2]user, jobs int) {
	var ids []store.ID
	completed := map[string]int{} // jobs by title
	for _, couple := range users {
		k := store.Keys{Limit: store.MaxKeys}
		for more := true; more; {
			mine, err := e.MyJobs(t.Context(), store.UserID(couple[0].name), k)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range mine {
				ids = append(ids, j.ID)
				if j.State == store.Completed {
					completed[j.Title]++
				}
			}
			if more = len(mine) == k.Limit; more {
				k.After = int64(mine[len(mine)-1].ID)
			}
		}
	}
	storetest.CheckMarket(t, e, ids)
	for n := range jobs {
		if title := fmt.Sprintf("Job %d", n+1); completed[title] != 1 {
			t.Errorf("%s was confirmed, and %d of that name are completed", title, completed[title])
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	told := 0
	for _, s := range []store.MessageState{store.Delivered, store.Dead} {
		k := store.Keys{Limit: store.MaxKeys}
		for more := true; more; {
			list, err := e.List(t.Context(), s, k)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range list {
				told++
				if _, arrived := r.bodies[webhook.ID(m.ID)]; !arrived || s == store.Dead {
					t.Errorf("message %s is %s, arrived: %v", m.ID, s, arrived)
				}
			}
			if more = len(list) == k.Limit; more {
				k.After = int64(list[len(list)-1].ID)
			}
		}
	}
	if told != len(r.bodies) || told < 5*jobs {
		t.Errorf("%d messages are kept, %d have arrived, of at least %d", told, len(r.bodies), 5*jobs)
	}
}

// beMain is nearjob, if the test binary was started to be that.
func beMain() {
	if os.Getenv(asMain) != "" {
		os.Unsetenv(asMain)
		os.Exit(run(context.Background(), os.Args[1:], streams{new(bytes.Buffer), os.Stdout, os.Stderr}))
	}
}
