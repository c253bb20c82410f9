package storetest

import (
	"testing"

	"github.com/nearjob/nearjob/store"
)

// soundHistory is a job that ann has applied for, bob was passed over for, and
// ann has started.
func soundHistory() history {
	at := clock
	event := func(id store.ID, seq int64, app store.ID, a store.Action, role store.Role, actor store.UserID,
		fromJob, toJob store.State, fromApp, toApp store.ApplicationState, told int) store.Event {
		return store.Event{ID: id, Job: 1, Seq: seq, Application: app, Action: a, Role: role, Actor: actor, At: at,
			FromJob: fromJob, ToJob: toJob, FromApp: fromApp, ToApp: toApp, Told: told}
	}
	h := history{
		job: store.Job{ID: 1, Requester: "rita", Title: "x", State: store.InProgress, Version: 3},
		apps: []store.Application{
			{ID: 10, Job: 1, Worker: "ann", State: store.AppStarted, Version: 3},
			{ID: 11, Job: 1, Worker: "bob", State: store.AppDeclined, MayReapply: true, Version: 2},
		},
		events: []store.Event{
			event(101, 1, 0, store.ActPost, store.RoleRequester, "rita", "", store.Open, "", "", 0),
			event(102, 2, 10, store.ActApply, store.RoleWorker, "ann", store.Open, store.Open, "", store.AppApplied, 1),
			event(103, 3, 11, store.ActApply, store.RoleWorker, "bob", store.Open, store.Open, "", store.AppApplied, 1),
			event(104, 4, 10, store.ActAccept, store.RoleRequester, "rita", store.Open, store.Matched, store.AppApplied, store.AppAccepted, 1),
			event(105, 5, 11, store.ActPassOver, store.RoleSystem, "", store.Matched, store.Matched, store.AppApplied, store.AppDeclined, 1),
			event(106, 6, 10, store.ActStart, store.RoleWorker, "ann", store.Matched, store.InProgress, store.AppAccepted, store.AppStarted, 1),
		},
		messages: map[store.ID][]store.Message{},
	}
	for i, who := range []store.UserID{"", "rita", "rita", "ann", "bob", "rita"} {
		v := h.events[i]
		if who == "" {
			continue
		}
		m := store.Message{ID: store.ID(i), Event: v.ID, Job: 1, Recipient: who, Role: store.RoleWorker, Action: v.Action, Actor: v.Actor, At: at, Title: "x", JobState: v.ToJob}
		if who == "rita" {
			m.Role = store.RoleRequester
		}
		h.messages[v.ID] = []store.Message{m}
	}
	return h
}

// TestChecker holds that the checker finds what it is there for: nothing in a sound
// history, and something in each of these.
func TestChecker(t *testing.T) {
	h := soundHistory()
	if faults := h.faults(); len(faults) > 0 {
		t.Fatalf("faults of a sound history: %q", faults)
	}
	for name, spoil := range map[string]func(*history){
		"two hold the job":              func(h *history) { h.apps[1].State = store.AppAccepted },
		"nobody holds the job":          func(h *history) { h.apps[0].State = store.AppWithdrawn },
		"held, but open":                func(h *history) { h.job.State = store.Open },
		"two applications of a worker":  func(h *history) { h.apps[1].Worker = "ann" },
		"the requester applies":         func(h *history) { h.apps[1].Worker = "rita" },
		"an event is missing":           func(h *history) { h.events = append(h.events[:3], h.events[4:]...) },
		"the last event is missing":     func(h *history) { h.events = h.events[:5] },
		"a number is missing":           func(h *history) { h.events[5].Seq = 7 },
		"a broken chain":                func(h *history) { h.events[5].FromJob = store.Open },
		"a broken chain of a worker":    func(h *history) { h.events[5].FromApp = store.AppApplied },
		"a step that there is not":      func(h *history) { h.events[5].ToJob, h.job.State = store.Completed, store.Completed },
		"done by the wrong role":        func(h *history) { h.events[5].Role = store.RoleRequester },
		"a version too many":            func(h *history) { h.job.Version++ },
		"an application's version":      func(h *history) { h.apps[0].Version++ },
		"may reapply":                   func(h *history) { h.apps[0].MayReapply = true },
		"a message is missing":          func(h *history) { delete(h.messages, 105) },
		"a message comes twice":         func(h *history) { h.messages[105] = append(h.messages[105], h.messages[105][0]) },
		"the wrong one is told":         func(h *history) { h.messages[105][0].Recipient = "ann" },
		"somebody is told of a posting": func(h *history) { h.messages[101] = h.messages[102] },
		"messages out of order":         func(h *history) { h.messages[106][0].ID = 1 },
		"a message as the wrong role":   func(h *history) { h.messages[106][0].Role = store.RoleWorker },
		"told is not counted":           func(h *history) { h.events[5].Told = 0 },
	} {
		h := soundHistory()
		spoil(&h)
		if len(h.faults()) == 0 {
			t.Errorf("%s: no fault found", name)
		}
	}
}
