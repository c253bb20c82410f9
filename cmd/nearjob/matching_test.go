package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/nearjob/nearjob/testdata/testdb"
)

const testSecret = "a secret of the tests, long enough"

// as sends a request of a user and returns the answer's object.
func (s *service) as(t *testing.T, user, method, path, body string) (status int, object map[string]any) {
	t.Helper()
	var src io.Reader
	if body != "" {
		src = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, src)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(must(t, "", "token", "--user", user, "--jwt-secret", testSecret)))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return resp.StatusCode, nil
	}
	if err := json.NewDecoder(resp.Body).Decode(&object); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, object
}

// mustAs is as for what has to succeed.
func (s *service) mustAs(t *testing.T, user, method, path, body string) map[string]any {
	t.Helper()
	status, object := s.as(t, user, method, path, body)
	if status >= 300 {
		t.Fatalf("%s %s of %s: %d %v", method, path, user, status, object)
	}
	return object
}

// found is how many jobs a search around the test's place finds.
func (s *service) found(t *testing.T) int {
	t.Helper()
	status, a := s.get(t, "/v1/jobs/nearby?lat=40.7143&lng=-74.006&radius_m=1000")
	if status != http.StatusOK {
		t.Fatalf("search: %d", status)
	}
	return len(a.Jobs)
}

// TestMatchingService goes through a match as its users see it, with every channel that
// needs no account elsewhere, on both databases.
func TestMatchingService(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testMatchingService(t, tempDB(t)) })
	t.Run("mysql", func(t *testing.T) { testMatchingService(t, testdb.MySQL(t)) })
}

func testMatchingService(t *testing.T, db string) {
	type called struct {
		header http.Header
		body   []byte
	}
	calls := make(chan called, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		calls <- called{r.Header, body}
	}))
	defer receiver.Close()
	s := start(t, "serve", "--db", db, "--jwt-secret", testSecret, "--webhook-http", "--webhook-allow", "127.0.0.0/8")

	hook := s.mustAs(t, "kim", http.MethodPost, "/v1/me/webhooks", fmt.Sprintf(`{"url":%q}`, receiver.URL))
	verifier, err := standardwebhooks.NewWebhook(hook["secret"].(string))
	if err != nil {
		t.Fatal(err)
	}
	s.mustAs(t, "kim", http.MethodPost, "/v1/me/alerts", `{"lat":40.72,"lng":-74.01,"radius_m":2000}`)

	// told waits for kim's next message by webhook and returns its action.
	told := func() string {
		t.Helper()
		select {
		case c := <-calls:
			if err := verifier.Verify(c.body, c.header); err != nil {
				t.Errorf("the signature is wrong: %v", err)
			}
			var event struct{ Type string }
			if err := json.Unmarshal(c.body, &event); err != nil {
				t.Fatal(err)
			}
			return strings.TrimPrefix(event.Type, "nearjob.")
		case <-time.After(time.Minute):
			t.Fatalf("nothing was told; log: %s", s.log)
		}
		return ""
	}

	job := s.mustAs(t, "ann", http.MethodPost, "/v1/jobs", `{"title":"Carry a sofa","lat":40.7143,"lng":-74.006}`)["id"].(string)
	if got := told(); got != "opened" {
		t.Errorf("the alert told of %q", got)
	}
	if n := s.found(t); n != 1 {
		t.Errorf("%d jobs are found after the posting", n)
	}
	at := "/v1/jobs/" + job + "/applications"
	application := at + "/" + s.mustAs(t, "kim", http.MethodPost, at, `{"message":"I have a van."}`)["id"].(string)
	s.mustAs(t, "ann", http.MethodPost, application+"/accept", "")
	if got := told(); got != "accept" {
		t.Errorf("the worker was told of %q", got)
	}
	if n := s.found(t); n != 0 {
		t.Errorf("%d jobs are found after the match", n)
	}
	if status, problem := s.as(t, "ann", http.MethodPost, application+"/accept", ""); status != http.StatusConflict || problem["can"] == nil {
		t.Errorf("accepting twice: %d %v", status, problem)
	}
	for _, step := range []struct{ user, action string }{{"kim", "start"}, {"kim", "finish"}, {"ann", "confirm"}} {
		s.mustAs(t, step.user, http.MethodPost, application+"/"+step.action, "")
	}
	if got := told(); got != "confirm" {
		t.Errorf("the worker was told of %q", got)
	}
	followStream(t, s, []string{"apply", "start", "finish"})

	resp, err := http.Get(s.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	metrics, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`nearjob_transitions_total{action="accept",outcome="done"} 1`,
		`nearjob_transition_conflicts_total{status="409"} 1`, "nearjob_notify_outbox_messages", "nearjob_notify_latency_seconds",
	} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if code := s.stop(); code != 0 {
		t.Errorf("it ended with exit code %d: %s", code, s.log)
	}
	if strings.Contains(s.log.String(), testSecret) {
		t.Error("the log shows the secret")
	}

	out := must(t, "", "outbox", "list", "--state", "delivered", "--db", db)
	if !strings.Contains(out, "accept") || !strings.Contains(out, `"kim"`) {
		t.Errorf("nearjob outbox list:\n%s", out)
	}
	id := strings.Fields(strings.Split(out, "\n")[1])[0]
	if out := must(t, "", "outbox", "replay", id, "--db", db); out != "1 messages will be delivered again\n" {
		t.Errorf("nearjob outbox replay: %s", out)
	}
	if out := must(t, "", "outbox", "list", "--state", "pending", "--db", db); !strings.Contains(out, id) {
		t.Errorf("the message is not pending again:\n%s", out)
	}
}

// followStream reads ann's stream from its beginning until it has told of all actions.
func followStream(t *testing.T, s *service, want []string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/me/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(must(t, "", "token", "--user", "ann", "--jwt-secret", testSecret)))
	r.Header.Set("Last-Event-ID", "1") // before the first message
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the stream answers %d", resp.StatusCode)
	}
	for lines := bufio.NewScanner(resp.Body); len(want) > 0; {
		if !lines.Scan() {
			t.Fatalf("the stream ended before %q: %v", want, lines.Err())
		}
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is {
			continue
		}
		var note struct{ Action string }
		if err := json.Unmarshal([]byte(data), &note); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if note.Action == want[0] {
			want = want[1:]
		}
	}
}

func TestMatchingWrongUse(t *testing.T) {
	for _, c := range []struct{ flag, says string }{
		{"--jwt-secret=short", "at least 32"},
		{"--no-public-read", "needs a way to check tokens"},
		{"--node=5000", "1023"},
		{"--notify-timeout=1ms", "1s..1h"},
		{"--jwks-url=http://keys.example.com/", "https"},
	} {
		code, _, errs := call(t, "", "serve", "--db", tempDB(t), c.flag)
		if code != 2 || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.says) || strings.Contains(errs, "short") {
			t.Errorf("serve %s: exit code %d, %q", c.flag, code, errs)
		}
	}
	for _, args := range [][]string{{"--trusted-proxy", "x"}, {"--webhook-allow", "10.0.0.0"}, {"--rate-user", "-1"}} {
		code, _, errs := call(t, "", append([]string{"serve", "--db", tempDB(t), "--addr", "127.0.0.1:0", "--jwt-secret", testSecret}, args...)...)
		if code != 2 || strings.Count(errs, "\n") != 1 {
			t.Errorf("serve %v: exit code %d, %q", args, code, errs)
		}
	}
}
