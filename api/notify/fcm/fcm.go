package fcm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	fcmv1 "google.golang.org/api/fcm/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"github.com/nearjob/nearjob/api/notify"
	"github.com/nearjob/nearjob/store"
)

// Devices is what the channel needs of a store.
type Devices interface {
	Devices(ctx context.Context, user store.UserID) ([]store.Device, error)
	DeleteDevice(ctx context.Context, user store.UserID, token string) error
}

// Options says as whom, and where, messages are sent.
type Options struct {
	// Key is the JSON of a service account's key, which names the project, the
	// signing key and where access tokens come from.
	Key []byte

	Project  string           // "": the key's
	Endpoint string           // "": Google's; for tests, "http://127.0.0.1:8081/"
	TTL      time.Duration    // how long FCM tries to reach a device that is off; 0: 24 h, at most 28 days
	Timeout  time.Duration    // of one call; 0: 10 s
	Now      func() time.Time // nil: time.Now
}

// maxTTL is FCM's limit.
const maxTTL = 28 * 24 * time.Hour

// Channel sends push messages. Safe for concurrent use.
type Channel struct {
	devices Devices
	opts    Options
	send    *fcmv1.ProjectsMessagesService
}

var _ notify.Channel = (*Channel)(nil)

// New returns a channel that finds tokens in devices. It checks the key's form;
// whether Google takes it shows with the first message.
func New(ctx context.Context, devices Devices, opts Options) (*Channel, error) {
	var key struct {
		Type    string `json:"type"`
		Project string `json:"project_id"`
	}
	if err := json.Unmarshal(opts.Key, &key); err != nil {
		return nil, store.Invalid("key", "is not JSON: give a service account's key, as the Firebase console makes it") // err may show a part of the key
	}
	if key.Type != "service_account" {
		return nil, store.Invalid("key", fmt.Sprintf("is of type %.40q, not service_account", key.Type))
	}
	opts.Project = cmp.Or(opts.Project, key.Project)
	if opts.Project == "" {
		return nil, store.Invalid("project", "is missing, and the key names none")
	}
	opts.TTL = cmp.Or(opts.TTL, 24*time.Hour)
	if opts.TTL < 0 || opts.TTL > maxTTL {
		return nil, store.Invalid("ttl", fmt.Sprintf("%v is not 0..%v", opts.TTL, maxTTL))
	}
	opts.Timeout = cmp.Or(opts.Timeout, 10*time.Second)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	// The scope is the smallest that FCM takes: the client's own default would
	// open the whole project to whoever sees a token.
	with := []option.ClientOption{
		option.WithAuthCredentialsJSON(option.ServiceAccount, opts.Key),
		option.WithScopes(fcmv1.FirebaseMessagingScope),
		option.WithUserAgent("nearjob"),
	}
	if opts.Endpoint != "" {
		with = append(with, option.WithEndpoint(opts.Endpoint))
	}
	service, err := fcmv1.NewService(context.WithoutCancel(ctx), with...)
	if err != nil {
		return nil, fmt.Errorf("set up FCM: %w", err)
	}
	return &Channel{devices: devices, opts: opts, send: service.Projects.Messages}, nil
}

// Targets lists the user's devices.
func (c *Channel) Targets(ctx context.Context, user store.UserID) ([]notify.Target, error) {
	devices, err := c.devices.Devices(ctx, user)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	targets := make([]notify.Target, len(devices))
	for i, d := range devices {
		targets[i] = notify.Target{Key: d.Token, Send: func(ctx context.Context, n notify.Note) error {
			return c.push(ctx, d, n)
		}}
	}
	return targets, nil
}

func (c *Channel) push(ctx context.Context, d store.Device, n notify.Note) error {
	m, err := c.message(d.Token, n)
	if err != nil {
		return &notify.RefusedError{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	_, err = c.send.Send("projects/"+c.opts.Project, &fcmv1.SendMessageRequest{Message: m}).Context(ctx).Do()
	if err == nil {
		return nil
	}
	err = outcome(err, c.opts.Now())
	if errors.Is(err, notify.ErrGone) {
		if err := c.devices.DeleteDevice(ctx, d.User, d.Token); err != nil {
			return fmt.Errorf("remove a token that FCM no longer knows: %w", err)
		}
	}
	return err
}

// message is a note in FCM's form. The message's id is, on each platform, what a
// notification replaces an earlier one by, so that a duplicate shows once.
func (c *Channel) message(token string, n notify.Note) (*fcmv1.Message, error) {
	id := n.ID.String()
	data := map[string]string{
		"id": id, "action": string(n.Action), "role": string(n.Role), "job_id": n.Job.String(),
		"job_state": string(n.JobState), "at": n.At.UTC().Format(time.RFC3339Nano),
	}
	if n.Application != 0 {
		data["application_id"] = n.Application.String()
	}
	tag, err := json.Marshal(map[string]string{"tag": id})
	if err != nil {
		return nil, fmt.Errorf("encode the message: %w", err)
	}
	seconds := strconv.FormatInt(int64(c.opts.TTL/time.Second), 10)
	return &fcmv1.Message{
		// The API is moving from tokens to installation ids; its field token
		// takes both, and fid only the latter.
		Token:        token,
		Notification: &fcmv1.Notification{Title: n.Title, Body: n.Body},
		Data:         data,
		Android:      &fcmv1.AndroidConfig{Priority: "HIGH", Ttl: seconds + "s", Notification: &fcmv1.AndroidNotification{Tag: id}},
		Apns: &fcmv1.ApnsConfig{Headers: map[string]string{
			"apns-priority": "10", "apns-collapse-id": id,
			"apns-expiration": strconv.FormatInt(c.opts.Now().Add(c.opts.TTL).Unix(), 10),
		}},
		Webpush: &fcmv1.WebpushConfig{Headers: map[string]string{"TTL": seconds, "Urgency": "high"}, Notification: tag},
	}, nil
}

// The shortest waits that FCM asks for in its list of error codes, where the
// answer names none.
const (
	quotaWait       = time.Minute
	unavailableWait = time.Second
)

// outcome turns an error of a send into one that a dispatcher acts on. FCM says
// what it means in a detail of type google.firebase.fcm.v1.FcmError; the HTTP
// status alone is not enough, for a wrong project is a 404 too.
func outcome(err error, now time.Time) error {
	e, ok := errors.AsType[*googleapi.Error](err)
	if !ok {
		return fmt.Errorf("send: %w", err) // no answer
	}
	code, field := details(e)
	said := fmt.Errorf("FCM answered %d %s", e.Code, cmp.Or(code, http.StatusText(e.Code)))
	if e.Message != "" {
		said = fmt.Errorf("%w: %.200s", said, e.Message)
	}
	wait := notify.RetryAfter(e.Header, now)
	switch {
	case code == "UNREGISTERED", code == "INVALID_ARGUMENT" && field == "message.token":
		return fmt.Errorf("%w: %w", said, notify.ErrGone)
	case code == "INVALID_ARGUMENT", code == "SENDER_ID_MISMATCH", code == "THIRD_PARTY_AUTH_ERROR":
		// These can also be a fault of ours or of the project's settings, which
		// must not cost all users their tokens.
		return &notify.RefusedError{Err: said}
	case e.Code == http.StatusTooManyRequests:
		return &notify.LaterError{After: cmp.Or(wait, quotaWait), Err: said}
	case e.Code >= 500:
		return &notify.LaterError{After: cmp.Or(wait, unavailableWait), Err: said}
	case e.Code == http.StatusBadRequest:
		return &notify.RefusedError{Err: said}
	}
	// 401, 403 and 404 of the project or the account: an operator can mend it.
	return said
}

// details finds FCM's own error code, and the field that a bad request names.
func details(e *googleapi.Error) (code, field string) {
	for _, d := range e.Details {
		m, ok := d.(map[string]any)
		if !ok {
			continue
		}
		switch m["@type"] {
		case "type.googleapis.com/google.firebase.fcm.v1.FcmError":
			code, _ = m["errorCode"].(string)
		case "type.googleapis.com/google.rpc.BadRequest":
			list, _ := m["fieldViolations"].([]any)
			for _, v := range list {
				if v, ok := v.(map[string]any); ok && field == "" {
					field, _ = v["field"].(string)
				}
			}
		}
	}
	return code, field
}
