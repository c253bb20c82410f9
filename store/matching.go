package store

import (
	"context"
	"time"
	"unicode"
	"unicode/utf8"
)

// Application is one worker's standing towards one job. There is one for each
// worker and job; applying again takes it up.
type Application struct {
	ID      ID
	Job     ID
	Worker  UserID
	State   ApplicationState
	Message string // of the worker, for the requester
	Reason  string // given with the last action on it
	// MayReapply says whether the worker may apply again, once the application
	// is withdrawn or declined and the job open.
	MayReapply bool
	Created    time.Time
	Updated    time.Time
	Version    int64 // 1 when new, one more with each change
}

// Event is a line in a job's history. An action makes one, and one more for
// each consequence that it has for another application.
type Event struct {
	ID          ID
	Job         ID
	Seq         int64 // 1, 2, 3... within the job, without a gap
	Application ID    // 0: none in particular
	Action      Action
	Role        Role   // of who did it
	Actor       UserID // "" for the system
	At          time.Time
	FromJob     State // "" for post
	ToJob       State
	FromApp     ApplicationState // "" where it is not about an application, and for a first apply
	ToApp       ApplicationState
	Reason      string
	Told        int // how many users got a message of it
}

// Outcome is what an action led to.
type Outcome struct {
	Job         Job
	Application Application // the zero Application for an action on the job
	Event       Event       // the action's own; the zero Event for an edit that changed nothing
}

// Edit is a change of an open job by its requester.
type Edit struct {
	Job       ID
	By        UserID
	IfVersion int64 // not 0: only if the job is at this version
	At        time.Time

	// Change alters the job. It may be called more than once, each time with
	// the job as it is stored. The fields ID, Source, SourceID, Requester, State,
	// Posted and Version do not change, whatever it does to them. Its error
	// ends the edit and is returned.
	Change func(*Job) error
}

// Matching is the writing side of the lifecycle. Each call is one transaction:
// the job, its place in the search tables, the applications, the history and
// the messages for those who are told change together or not at all.
//
// Its methods return *[InvalidError], [ErrNotFound], [ErrForbidden],
// *[TransitionError], *[VersionError], [ErrBusy], [ErrTimeout],
// [ErrUnknownOutcome] or what the database said. What failed with another error
// than ErrUnknownOutcome or a context's was not done.
type Matching interface {
	// Post adds a job with a Requester and an ID of the caller's making, open,
	// at version 1, whatever its State and Version say, as at its Posted. It
	// returns ErrDuplicate when the id is taken.
	Post(ctx context.Context, j Job) (Outcome, error)

	// Edit changes an open job.
	Edit(ctx context.Context, e Edit) (Outcome, error)

	// Act carries out any other action.
	Act(ctx context.Context, c Command) (Outcome, error)

	// Expire marks up to limit open jobs whose time has passed, each in a
	// transaction of its own, and returns how many this call has marked. Any number of
	// nodes may sweep at once.
	Expire(ctx context.Context, now time.Time, limit int) (int, error)
}

// MaxKeys is the largest limit of a [Keys].
const MaxKeys = 1000

// Keys asks for a piece of a list: the entries that come behind a key. The next
// piece begins behind the last entry's key. A piece that is shorter than Limit is the last.
type Keys struct {
	After int64 // 0: from the beginning
	Limit int   // 1..MaxKeys
}

// Validate returns an *[InvalidError] for what cannot be asked.
func (k Keys) Validate() error {
	var f faults
	if k.After < 0 {
		f.add("after", "%d is negative", k.After)
	}
	if k.Limit < 1 || k.Limit > MaxKeys {
		f.add("limit", "%d is not 1..%d", k.Limit, MaxKeys)
	}
	return f.err()
}

// MatchReader is the reading side of the lifecycle. It returns what is stored to
// whoever asks: whether they may see it is for the caller to know. A list of a
// job or user that does not exist is empty.
type MatchReader interface {
	// Application returns ErrNotFound when there is none.
	Application(ctx context.Context, id ID) (Application, error)

	// ApplicationsOf lists a job's applications, the first first; the key is the id.
	ApplicationsOf(ctx context.Context, job ID, k Keys) ([]Application, error)

	// MyJobs lists the jobs that a user has posted, the newest first; the key is the id.
	MyJobs(ctx context.Context, user UserID, k Keys) ([]Job, error)

	// MyApplications lists a worker's applications, the newest first; the key is the id.
	MyApplications(ctx context.Context, user UserID, k Keys) ([]Application, error)

	// Events lists a job's history, the oldest first; the key is Seq.
	Events(ctx context.Context, job ID, k Keys) ([]Event, error)

	// ApplicationFor returns a worker's application for a job, or ErrNotFound.
	ApplicationFor(ctx context.Context, job ID, worker UserID) (Application, error)
}

// MessageState is where the delivery of a message stands.
type MessageState string

// The states of a message.
const (
	Pending   MessageState = "pending" // to be delivered, or being delivered
	Delivered MessageState = "delivered"
	Dead      MessageState = "dead" // given up
)

// Message tells one user of one event. It is written in the event's own
// transaction, so that none is lost and none is sent for what did not happen.
type Message struct {
	// ID grows along each job's history. A message can become visible a moment
	// (the length of a transaction) after one of another job with a higher id.
	ID          ID
	Event       ID
	Job         ID
	Application ID // the recipient's own, or that of the worker it is about; 0: none
	Recipient   UserID
	Role        Role // of the recipient
	Action      Action
	Actor       UserID // who did it; "" for the system
	At          time.Time
	Title       string // of the job, at that time
	JobState    State  // after the event
	Note        string // what the actor wrote: the application's message, or the reason

	State     MessageState
	Attempts  int       // how often it was claimed, this time included
	Due       time.Time // when it may be claimed, or the end of the lease
	Node      string    // who holds it; "" for nobody
	LastError string    // of the last attempt
	Ended     time.Time // when it was delivered or given up; zero before
}

// Outbox is a dispatcher's side of the messages: at least once, and in order for
// each job. A message is not handed out while an earlier one of its job is
// pending; a dead one does not hold up the others. What alerts tell ([ActOpened])
// has no order: it can be thousands of a job, holds nothing up, and is handed out when
// nothing else is due.
type Outbox interface {
	// Claim hands up to n due messages, at most one of each job that has an order, to a node, which holds
	// them for the lease; after that they are handed out again. n is at most MaxKeys.
	Claim(ctx context.Context, node string, n int, lease time.Duration, now time.Time) ([]Message, error)

	// Done notes that a message was delivered, also by a claim whose lease has
	// ended in the meantime.
	Done(ctx context.Context, m Message, now time.Time) error

	// Retry gives a claimed message back, to be claimed at a time or later, as are those
	// that wait for it: while a channel is out, they cost the claims of others nothing. It
	// returns ErrLeaseLost when the message is no longer this claim's.
	Retry(ctx context.Context, m Message, at time.Time, cause string) error

	// Dead gives a claimed message up. It returns ErrLeaseLost when the message
	// is no longer this claim's.
	Dead(ctx context.Context, m Message, now time.Time, cause string) error
}

// Depth is how much waits in the outbox.
type Depth struct {
	Pending, Delivered, Dead int
	// Oldest is when the oldest pending message's event happened; zero: none is pending.
	Oldest time.Time
}

// OutboxAdmin is the operator's side of the messages.
type OutboxAdmin interface {
	// List lists the messages in a state, the oldest first; the key is the id.
	List(ctx context.Context, s MessageState, k Keys) ([]Message, error)

	// Replay makes messages pending again that are dead or delivered, due at a
	// time and with no attempts, and returns how many.
	Replay(ctx context.Context, ids []ID, at time.Time) (int, error)

	// Depth counts. It reads the index of the states as a whole: for a metric
	// every few seconds, not for every request.
	Depth(ctx context.Context) (Depth, error)

	// PruneMessages removes up to limit messages that were delivered or given up
	// before a time, and returns how many.
	PruneMessages(ctx context.Context, before time.Time, limit int) (int, error)
}

// Inbox is a user's side of the messages: all that are kept, whatever became of
// their delivery. A reader that follows it by id should look back a few seconds
// and leave out what it has seen: see [Message].ID.
type Inbox interface {
	// Messages lists a user's messages, the oldest first; the key is the id.
	Messages(ctx context.Context, user UserID, k Keys) ([]Message, error)

	// LastMessage returns the highest id of a user's messages, 0 for none.
	LastMessage(ctx context.Context, user UserID) (ID, error)
}

// OperationKey names a request that is to be carried out once.
type OperationKey struct {
	User      UserID // "" for a caller without a login
	Operation string // the method and path
	Key       string // the client's Idempotency-Key
}

// AnswerState says what is known of a request.
type AnswerState string

// The states of a request.
const (
	AnswerNew     AnswerState = "new"         // the caller has it now, and is to carry it out
	AnswerRunning AnswerState = "in_progress" // another has it
	AnswerKnown   AnswerState = "known"
)

// Answer is what is kept of a request.
type Answer struct {
	State    AnswerState
	BodyHash [32]byte  // of the request
	Token    int64     // identifies the claim, with AnswerNew
	Until    time.Time // when the claim ends, with AnswerNew and AnswerRunning
	Status   int       // with AnswerKnown, as the next two
	Header   map[string][]string
	Body     []byte
}

// Idempotency keeps the answers to requests.
type Idempotency interface {
	// Begin claims a request until now+lease, or returns what is known of it;
	// whether BodyHash is then that of the same request is for the caller to compare. A
	// claim whose lease has ended is handed to the next caller.
	Begin(ctx context.Context, k OperationKey, bodyHash [32]byte, now time.Time, lease time.Duration) (Answer, error)

	// Finish keeps the answer of a claim. It returns ErrLeaseLost when the
	// request is no longer this claim's.
	Finish(ctx context.Context, k OperationKey, token int64, status int, header map[string][]string, body []byte) error

	// Forget gives a claim up, so that the request can be made anew. It does
	// nothing when the request is no longer this claim's.
	Forget(ctx context.Context, k OperationKey, token int64) error

	// SweepAnswers removes up to limit requests that began before a time, and returns
	// how many.
	SweepAnswers(ctx context.Context, before time.Time, limit int) (int, error)
}

// Device is where a user gets push messages.
type Device struct {
	Token   string // of the push service, 1..4096 characters
	User    UserID
	Created time.Time
}

// Devices keeps users' devices. A token belongs to the user who put it last: a
// phone that changes hands takes its token along.
type Devices interface {
	PutDevice(ctx context.Context, d Device) error
	// DeleteDevice removes a user's device, or does nothing.
	DeleteDevice(ctx context.Context, user UserID, token string) error
	// Devices lists a user's devices, the newest first, at most 100.
	Devices(ctx context.Context, user UserID) ([]Device, error)
}

// Webhook is an address that a user gets messages at.
type Webhook struct {
	ID       ID
	User     UserID
	URL      string
	Secret   string // "whsec_..."
	Created  time.Time
	Disabled string // why; "": it is in use
}

// Webhooks keeps users' webhooks.
type Webhooks interface {
	// PutWebhook adds a webhook, or changes URL, Secret and Disabled of the one
	// with this id and user. It returns ErrForbidden when the id is another user's.
	PutWebhook(ctx context.Context, w Webhook) error
	// DeleteWebhook removes a user's webhook, or does nothing.
	DeleteWebhook(ctx context.Context, user UserID, id ID) error
	// Webhooks lists a user's webhooks, the oldest first, at most 100.
	Webhooks(ctx context.Context, user UserID) ([]Webhook, error)
}

// Settings are a user's wishes.
type Settings struct {
	Language string   // "en" or "ko"; "": not chosen
	Channels []string // of "push", "webhook", "stream", sorted; nil: not chosen
}

// Profiles keeps users' settings.
type Profiles interface {
	// Settings returns the zero Settings for a user who has none.
	Settings(ctx context.Context, user UserID) (Settings, error)
	PutSettings(ctx context.Context, user UserID, s Settings) error
}

// Subscriber is all that says how a user is told.
type Subscriber interface {
	Devices
	Webhooks
	Profiles
}

// Market is all of the matching that an engine does. It is apart from [Engine],
// which is what a search needs.
type Market interface {
	Matching
	MatchReader
	Outbox
	OutboxAdmin
	Inbox
	Idempotency
	Subscriber
}

// Limits of a user's subscriptions.
const (
	MaxToken    = 4096 // characters
	MaxSecret   = 200
	MaxDisabled = 500
	MaxPerUser  = 100 // devices, and webhooks, that are listed
)

// Validate returns an *[InvalidError] for what cannot be stored.
func (d *Device) Validate() error {
	var f faults
	d.User.check(&f, "user")
	checkText(&f, "token", d.Token, MaxToken, "")
	if d.Token == "" {
		f.add("token", "is missing")
	}
	if !storable(d.Created) {
		f.add("created", "is missing or not in the years 1970 to 9999")
	}
	return f.err()
}

// Validate returns an *[InvalidError] for what cannot be stored. Whether the
// address may be called is for the caller to know.
func (w *Webhook) Validate() error {
	var f faults
	w.User.check(&f, "user")
	checkText(&f, "url", w.URL, MaxURL, "")
	checkText(&f, "secret", w.Secret, MaxSecret, "")
	checkText(&f, "disabled", w.Disabled, MaxDisabled, "")
	if w.ID <= 0 {
		f.add("id", "%d is not a positive number", w.ID)
	}
	if w.URL == "" {
		f.add("url", "is missing")
	}
	if !storable(w.Created) {
		f.add("created", "is missing or not in the years 1970 to 9999")
	}
	return f.err()
}

// Channels lists what Settings.Channels may hold.
func Channels() []string { return []string{"push", "stream", "webhook"} }

// Normalize sorts the channels and refuses, as an *[InvalidError], what is not known.
func (s *Settings) Normalize() error {
	var f faults
	switch s.Language {
	case "", "en", "ko":
	default:
		f.add("language", `%.20q is not "en" or "ko"`, s.Language)
	}
	if s.Channels != nil {
		kept := make([]string, 0, 3)
		for _, known := range Channels() {
			for _, c := range s.Channels {
				if c == known {
					kept = append(kept, c)
					break
				}
			}
		}
		for _, c := range s.Channels {
			if c != "push" && c != "stream" && c != "webhook" {
				f.add("channels", "%.20q is not push, stream or webhook", c)
			}
		}
		s.Channels = kept
	}
	return f.err()
}

func (u UserID) check(f *faults, field string) {
	switch {
	case u == "":
		f.add(field, "is missing")
	case !utf8.ValidString(string(u)):
		f.add(field, "is not valid UTF-8")
	case utf8.RuneCountInString(string(u)) > MaxUserID:
		f.add(field, "is longer than %d characters", MaxUserID)
	default:
		for _, r := range string(u) {
			if !unicode.IsPrint(r) {
				f.add(field, "has a character that cannot be printed")
				return
			}
		}
	}
}
