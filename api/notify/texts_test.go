package notify_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nearjob/nearjob/api/notify"
	"github.com/nearjob/nearjob/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

// cases are the messages that the lifecycle's table leads to: each action, each
// role that it tells, and each state that the job can then be in.
func cases() []store.Message {
	var out []store.Message
	table := store.Transitions()
	// Consequences have no steps: their job is where the action that has them leads.
	ends := make(map[store.Action]map[store.State]bool)
	add := func(a store.Action, s store.State) {
		if ends[a] == nil {
			ends[a] = make(map[store.State]bool)
		}
		ends[a][s] = true
	}
	for _, t := range table {
		for _, s := range t.Steps {
			add(t.Action, s.ToJob)
			if t.Others != nil {
				add(t.Others.Action, s.ToJob)
			}
			if s.Job.Taken() && s.ToJob == store.Open { // or its time has passed
				add(t.Action, store.Expired)
				add(store.ActReopen, store.Open)
			}
		}
	}
	for _, t := range table {
		roles := make(map[store.Role]bool)
		for _, audience := range t.Tells {
			if roles[audience.Role()] {
				continue
			}
			roles[audience.Role()] = true
			for _, s := range store.States() {
				if !ends[t.Action][s] {
					continue
				}
				for _, note := range []string{"", "내일은\n시간이 안 돼요 / no time"} {
					out = append(out, store.Message{
						ID: 5, Job: 6, Application: 7, Recipient: "u", Role: audience.Role(), Action: t.Action, JobState: s,
						Title: "가구 조립 Assemble furniture", Note: note, At: time.Unix(1, 0).UTC(),
					})
				}
			}
		}
	}
	// Alerts tell of a job in words of their own, whatever is in the table.
	return append(out, store.Message{
		ID: 5, Job: 6, Recipient: "u", Role: store.RoleWorker, Action: store.ActOpened, JobState: store.Open,
		Title: "가구 조립 Assemble furniture", At: time.Unix(1, 0).UTC(),
	})
}

// TestEveryPair: whoever can be told of an action has a title and a body for it in each
// language, and whoever cannot be told has none.
func TestEveryPair(t *testing.T) {
	type pair struct {
		action store.Action
		role   store.Role
	}
	tells := map[pair]bool{{store.ActOpened, store.RoleWorker}: true}
	actions := []store.Action{store.ActOpened}
	for _, row := range store.Transitions() {
		actions = append(actions, row.Action)
		for _, audience := range row.Tells {
			tells[pair{row.Action, audience.Role()}] = true
		}
	}
	if len(tells) < 15 {
		t.Fatalf("only %d pairs are told: the test looks in the wrong place", len(tells))
	}
	x := texts(t)
	for _, action := range actions {
		for _, role := range []store.Role{store.RoleRequester, store.RoleWorker, store.RoleSystem} {
			for _, lang := range x.Languages() {
				m := message(1, 1)
				m.Action, m.Role, m.Title, m.JobState = action, role, "Carry a sofa", store.Open
				n, err := x.Note(m, lang)
				if !tells[pair{action, role}] {
					if err == nil {
						t.Errorf("%s has words for the %s in %s, who is never told of it", action, role, lang)
					}
					continue
				}
				if err != nil || strings.TrimSpace(n.Title) == "" || !strings.Contains(n.Body, m.Title) || n.Language != lang {
					t.Errorf("%s for the %s in %s: %+v, %v", action, role, lang, n, err)
				}
			}
		}
	}
}

func TestTexts(t *testing.T) {
	x := texts(t)
	all := cases()
	told := make(map[store.Action]bool)
	for _, m := range all {
		told[m.Action] = true
	}
	for _, row := range store.Transitions() {
		if len(row.Tells) > 0 && !told[row.Action] {
			t.Errorf("%s tells somebody, and there is no case of it", row.Action)
		}
	}
	if len(told) < 10 {
		t.Fatalf("the table tells of %d actions: the test looks in the wrong place", len(told))
	}
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "%s, told to the %s, job %s, note %q\n", m.Action, m.Role, m.JobState, m.Note)
		for _, lang := range x.Languages() {
			n, err := x.Note(m, lang)
			if err != nil {
				t.Fatal(err)
			}
			if n.Language != lang || n.Title == "" || n.Body == "" || strings.Contains(n.Title+n.Body, "{{") {
				t.Errorf("%s %s: %+v", lang, m.Action, n)
			}
			if !strings.Contains(n.Body, m.Title) {
				t.Errorf("%s %s does not name the job: %s", lang, m.Action, n.Body)
			}
			if korean := strings.ContainsFunc(n.Title, func(r rune) bool { return r >= '가' && r <= '힣' }); korean != (lang == "ko") {
				t.Errorf("%s %s: the title is in another language: %s", lang, m.Action, n.Title)
			}
			// 해요체: the title and each sentence of ours end in 요.
			if lang == "ko" {
				if !strings.HasSuffix(n.Title, "요") {
					t.Errorf("%s: the title's ending: %s", m.Action, n.Title)
				}
				body := n.Body
				if _, quoted, ok := strings.Cut(body, "“"); ok {
					_, rest, _ := strings.Cut(quoted, "”")
					body = strings.TrimSpace(rest)
				}
				if body != "" && !strings.HasSuffix(body, "요.") {
					t.Errorf("%s: the body's ending: %s", m.Action, n.Body)
				}
			}
			fmt.Fprintf(&b, "  %s  %s\n      %s\n", lang, n.Title, n.Body)
		}
	}
	golden(t, "testdata/texts.golden", b.String())
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: run the test with -update", err)
	}
	if got != string(want) {
		t.Errorf("%s differs: look at the difference after running with -update\n%s", file, got)
	}
}

func TestLanguage(t *testing.T) {
	x := texts(t)
	for _, test := range []struct {
		wishes []string
		want   string
	}{
		{nil, "en"}, {[]string{""}, "en"}, {[]string{"ko"}, "ko"}, {[]string{"ko-KR"}, "ko"}, {[]string{"KO_kr"}, "ko"},
		{[]string{"en-GB"}, "en"}, {[]string{"fr"}, "en"}, {[]string{"", "ko;q=0.8, fr"}, "ko"}, {[]string{"", "de, en;q=0.9, ko;q=0.5"}, "en"},
		{[]string{"en", "ko"}, "en"}, {[]string{"ko", "en"}, "ko"}, {[]string{"%%%", "ko"}, "ko"},
	} {
		if got := x.Language(test.wishes...); got != test.want {
			t.Errorf("Language(%q) is %q, want %q", test.wishes, got, test.want)
		}
	}
}

func TestTextsAreCut(t *testing.T) {
	x := texts(t)
	m := message(1, 1)
	m.Action, m.Role = store.ActApply, store.RoleRequester
	for title, want := range map[string]string{
		strings.Repeat("가", 300):                      strings.Repeat("가", 39) + "…",
		strings.Repeat("가", 40):                       strings.Repeat("가", 40),
		strings.Repeat("a", 39) + "\u0301\u0301 rest": strings.Repeat("a", 38) + "…", // not without its accents
		strings.Repeat("x", 37) + "👩‍👩‍👧‍👦 family":    strings.Repeat("x", 37) + "…",
		strings.Repeat("👍🏽", 100):                     strings.Repeat("👍🏽", 19) + "…",
		strings.Repeat("word ", 60):                   strings.TrimSpace(strings.Repeat("word ", 8)) + "…",
		"a\nb\tc":                                     "a b c",
		"bad \xff bytes":                              "bad \uFFFD bytes",
		strings.Repeat("\u0301", 100):                 "",
	} {
		m.Title, m.Note = title, strings.Repeat(title, 5)
		for _, lang := range x.Languages() {
			n, err := x.Note(m, lang)
			if err != nil {
				t.Fatal(err)
			}
			if !utf8.ValidString(n.Body) || strings.ContainsAny(n.Body, "\n\t") {
				t.Errorf("%q gives %q", title, n.Body)
			}
			if l := utf8.RuneCountInString(n.Body); l > 40+120+60 {
				t.Errorf("%q gives %d characters", title, l)
			}
			if want != "" && !strings.Contains(n.Body, want) {
				t.Errorf("%q gives %q, not %s", title, n.Body, want)
			}
			if n.JobTitle != m.Title || n.Note != m.Note {
				t.Errorf("the note's own fields are cut")
			}
		}
	}
}

func TestBackoff(t *testing.T) {
	b := notify.Backoff{Base: time.Second, Max: 5 * time.Minute}
	for _, test := range []struct {
		attempt int
		want    time.Duration
	}{{-1, time.Second}, {0, time.Second}, {1, time.Second}, {2, 2 * time.Second}, {9, 256 * time.Second}, {10, 5 * time.Minute}, {1 << 40, 5 * time.Minute}} {
		if got := b.Bound(test.attempt); got != test.want {
			t.Errorf("Bound(%d) is %v, want %v", test.attempt, got, test.want)
		}
	}
	if lo, mid := b.Delay(3, 0), b.Delay(3, .5); lo != 0 || mid != 2*time.Second {
		t.Errorf("the jitter spans %v and %v, not the whole of 4 s", lo, mid)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "-7": 0, "+7": 0, "1.5": 0, "soon": 0,
		"600": 10 * time.Minute, "601": 10 * time.Minute, "99999999999999999999999": 10 * time.Minute,
		"Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second, "Fri, 02 Jan 2026 03:04:05 GMT": 0, "Fri, 02 Jan 2025 03:04:05 GMT": 0,
		"Friday, 02-Jan-26 03:05:05 GMT": time.Minute, "Fri, 02 Jan 2099 03:04:05 GMT": 10 * time.Minute,
	} {
		if got := notify.RetryAfter(http.Header{"Retry-After": {text}}, now); got != want {
			t.Errorf("RetryAfter(%q) is %v, want %v", text, got, want)
		}
	}
}

// Run: go test -fuzz FuzzRetryAfter ./api/notify
func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "7", "Fri, 02 Jan 2026 03:04:35 GMT", "99999999999999999999999"} {
		f.Add(s)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		if d := notify.RetryAfter(http.Header{"Retry-After": {s}}, now); d < 0 || d > notify.MaxRetryAfter {
			t.Errorf("RetryAfter(%q) is %v", s, d)
		}
	})
}
