package api

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"github.com/nearjob/nearjob/api/notify/webhook"
	"github.com/nearjob/nearjob/store"
)

type webhookInput struct {
	URL    *string `json:"url" format:"uri" maxLength:"2000" nullable:"false" example:"https://example.com/hooks/nearjob" doc:"What to call: https, on the public internet."`
	Secret *string `json:"secret,omitempty" maxLength:"200" example:"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" doc:"whsec_ and the base64 of 24 to 64 bytes. Left out: one is made."`
}

func (a *api) myEndpoints() []endpoint {
	list := []endpoint{
		{
			method: http.MethodGet, path: "/v1/me/jobs", id: "my-jobs", summary: "List my jobs",
			about: "The jobs that the caller has posted, the newest first, whatever their state.",
			paged: true, answers: map[int]reflect.Type{http.StatusOK: reflect.TypeFor[jobList]()}, handle: a.myJobs,
		},
		{
			method: http.MethodGet, path: "/v1/me/applications", id: "my-applications", summary: "List my applications",
			about: "The caller's applications, the newest first, whatever their state.",
			paged: true, answers: map[int]reflect.Type{http.StatusOK: reflect.TypeFor[applicationList]()}, handle: a.myApplications,
		},
		{
			method: http.MethodGet, path: "/v1/me/messages", id: "my-messages", summary: "List my messages",
			about: "What the caller was told, the oldest first, whatever became of the delivery. To follow them use /v1/me/stream where the server has it.",
			paged: true, answers: map[int]reflect.Type{http.StatusOK: reflect.TypeFor[messageList]()}, handle: a.myMessages,
		},
		{
			method: http.MethodGet, path: "/v1/me/settings", id: "my-settings", summary: "Read my settings",
			about:   "How the caller wants to be told, as far as chosen.",
			answers: map[int]reflect.Type{http.StatusOK: reflect.TypeFor[settings]()}, handle: a.mySettings,
		},
		{
			method: http.MethodPut, path: "/v1/me/settings", id: "set-my-settings", summary: "Set my settings",
			about: "All of them: what is left out is as if never chosen.",
			body:  reflect.TypeFor[settings](), needed: true,
			answers: map[int]reflect.Type{http.StatusOK: reflect.TypeFor[settings]()}, handle: a.setMySettings,
		},
		{
			method: http.MethodPut, path: "/v1/me/devices/{token}", id: "put-my-device", summary: "Add a device",
			about:   "A device gets push messages. A token belongs to the user who put it last.",
			answers: map[int]reflect.Type{http.StatusNoContent: nil}, handle: a.putDevice,
		},
		{
			method: http.MethodDelete, path: "/v1/me/devices/{token}", id: "delete-my-device", summary: "Remove a device",
			about:   "Also answered with 204 where the caller has no such device.",
			answers: map[int]reflect.Type{http.StatusNoContent: nil}, handle: a.deleteDevice,
		},
		{
			method: http.MethodGet, path: "/v1/me/webhooks", id: "my-webhooks", summary: "List my webhooks",
			about:   "The oldest first, without their secrets.",
			answers: map[int]reflect.Type{http.StatusOK: reflect.TypeFor[hookList]()}, handle: a.myWebhooks,
		},
		{
			method: http.MethodPost, path: "/v1/me/webhooks", id: "add-my-webhook", summary: "Add a webhook",
			about: "An address that is called with each message, as standardwebhooks.com says. The answer has the secret, once.",
			body:  reflect.TypeFor[webhookInput](), needed: true,
			answers: map[int]reflect.Type{http.StatusCreated: reflect.TypeFor[hook]()}, handle: a.addWebhook,
		},
		{
			method: http.MethodDelete, path: "/v1/me/webhooks/{id}", id: "delete-my-webhook", summary: "Remove a webhook",
			about:   "Also answered with 204 where the caller has no such webhook.",
			answers: map[int]reflect.Type{http.StatusNoContent: nil}, handle: a.deleteWebhook,
		},
	}
	for i := range list {
		list[i].tag = "Me"
	}
	return list
}

func (a *api) myJobs(ctx context.Context, c *call) (reply, error) {
	k := c.keys("my-jobs", string(c.user))
	if err := c.err(); err != nil {
		return reply{}, err
	}
	list, err := a.deps.Market.MyJobs(ctx, c.user, k)
	if err != nil {
		return reply{}, err
	}
	out := jobList{Jobs: []job{}}
	list, out.NextCursor = cut(list, k, "my-jobs", string(c.user), func(j *store.Job) int64 { return int64(j.ID) })
	for i := range list {
		j := a.asRequester(&list[i], c.now)
		j.Description = "" // as in a search
		out.Jobs = append(out.Jobs, j)
	}
	return reply{status: http.StatusOK, body: out}, nil
}

func (a *api) myApplications(ctx context.Context, c *call) (reply, error) {
	k := c.keys("my-applications", string(c.user))
	if err := c.err(); err != nil {
		return reply{}, err
	}
	list, err := a.deps.Market.MyApplications(ctx, c.user, k)
	if err != nil {
		return reply{}, err
	}
	out := applicationList{Applications: []application{}}
	list, out.NextCursor = cut(list, k, "my-applications", string(c.user), func(app *store.Application) int64 { return int64(app.ID) })
	if len(list) == 0 {
		return reply{status: http.StatusOK, body: out}, nil
	}
	ids := make([]store.ID, len(list))
	for i := range list {
		ids[i] = list[i].Job
	}
	found, err := a.deps.Jobs.Jobs(ctx, ids)
	if err != nil {
		return reply{}, err
	}
	jobs := make(map[store.ID]*store.Job, len(found))
	for i := range found {
		jobs[found[i].ID] = &found[i]
	}
	for i := range list {
		j := jobs[list[i].Job]
		if j == nil {
			return reply{}, fmt.Errorf("application %s is for job %s, which is not there", list[i].ID, list[i].Job)
		}
		out.Applications = append(out.Applications, newApplication(&list[i], j, store.RoleWorker, c.now))
	}
	return reply{status: http.StatusOK, body: out}, nil
}

func (a *api) myMessages(ctx context.Context, c *call) (reply, error) {
	k := c.keys("my-messages", string(c.user))
	if err := c.err(); err != nil {
		return reply{}, err
	}
	list, err := a.deps.Market.Messages(ctx, c.user, k)
	if err != nil {
		return reply{}, err
	}
	out := messageList{Messages: []message{}}
	list, out.NextCursor = cut(list, k, "my-messages", string(c.user), func(m *store.Message) int64 { return int64(m.ID) })
	for _, m := range list {
		out.Messages = append(out.Messages, message{
			ID: m.ID, At: m.At.UTC(), Action: m.Action, Role: m.Role, JobID: m.Job, JobTitle: m.Title, JobState: m.JobState,
			ApplicationID: m.Application, Note: m.Note,
		})
	}
	return reply{status: http.StatusOK, body: out}, nil
}

func newSettings(s store.Settings) settings {
	out := settings{Channels: s.Channels}
	if s.Language != "" {
		out.Language = &s.Language
	}
	return out
}

func (a *api) mySettings(ctx context.Context, c *call) (reply, error) {
	if err := c.err(); err != nil {
		return reply{}, err
	}
	s, err := a.deps.Market.Settings(ctx, c.user)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, body: newSettings(s)}, nil
}

func (a *api) setMySettings(ctx context.Context, c *call) (reply, error) {
	var in settings
	c.fill(&in)
	s := store.Settings{Language: c.line("language", in.Language), Channels: in.Channels}
	if in.Language != nil && *in.Language == "" {
		c.add("language", `"" is not "en" or "ko": leave it out`)
	}
	c.merge(s.Normalize())
	if err := c.err(); err != nil {
		return reply{}, err
	}
	if err := a.deps.Market.PutSettings(ctx, c.user, s); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, body: newSettings(s)}, nil
}

// device reads the device of the path.
func (c *call) device() store.Device {
	d := store.Device{Token: c.r.PathValue("token"), User: c.user, Created: c.now}
	c.merge(d.Validate())
	return d
}

func (a *api) putDevice(ctx context.Context, c *call) (reply, error) {
	d := c.device()
	if err := c.err(); err != nil {
		return reply{}, err
	}
	list, err := a.deps.Market.Devices(ctx, c.user)
	if err != nil {
		return reply{}, err
	}
	// Two at once may go one over the limit, which does no harm.
	if len(list) >= store.MaxPerUser && !slices.ContainsFunc(list, func(o store.Device) bool { return o.Token == d.Token }) {
		return reply{}, store.Invalid("token", fmt.Sprintf("is one more than the %d devices of a user: remove one", store.MaxPerUser))
	}
	if err := a.deps.Market.PutDevice(ctx, d); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, nil
}

func (a *api) deleteDevice(ctx context.Context, c *call) (reply, error) {
	d := c.device()
	if err := c.err(); err != nil {
		return reply{}, err
	}
	if err := a.deps.Market.DeleteDevice(ctx, c.user, d.Token); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, nil
}

func (a *api) myWebhooks(ctx context.Context, c *call) (reply, error) {
	if err := c.err(); err != nil {
		return reply{}, err
	}
	list, err := a.deps.Market.Webhooks(ctx, c.user)
	if err != nil {
		return reply{}, err
	}
	out := hookList{Webhooks: []hook{}}
	for _, w := range list {
		out.Webhooks = append(out.Webhooks, hook{ID: w.ID, URL: w.URL, Created: w.Created.UTC(), Disabled: w.Disabled})
	}
	return reply{status: http.StatusOK, body: out}, nil
}

func (a *api) addWebhook(ctx context.Context, c *call) (reply, error) {
	var in webhookInput
	c.fill(&in)
	w := store.Webhook{ID: a.deps.IDs.Next(), User: c.user, URL: c.line("url", in.URL), Secret: value(in.Secret), Created: c.now}
	switch {
	case in.URL == nil:
		c.add("url", "is missing: want an https address")
	case !c.has("url"):
		c.merge(a.deps.Webhooks.CheckURL(w.URL))
	}
	if in.Secret != nil {
		c.merge(webhook.CheckSecret(w.Secret))
	} else {
		secret, err := webhook.NewSecret(rand.Reader)
		if err != nil {
			return reply{}, err
		}
		w.Secret = secret
	}
	c.merge(w.Validate())
	if err := c.err(); err != nil {
		return reply{}, err
	}
	list, err := a.deps.Market.Webhooks(ctx, c.user)
	if err != nil {
		return reply{}, err
	}
	if len(list) >= store.MaxPerUser {
		return reply{}, store.Invalid("url", fmt.Sprintf("is one more than the %d webhooks of a user: remove one", store.MaxPerUser))
	}
	if err := a.deps.Market.PutWebhook(ctx, w); err != nil {
		return reply{}, err
	}
	return reply{
		status: http.StatusCreated, body: hook{ID: w.ID, URL: w.URL, Secret: w.Secret, Created: w.Created.UTC()},
		location: "/v1/me/webhooks",
	}, nil
}

func (a *api) deleteWebhook(ctx context.Context, c *call) (reply, error) {
	id := c.pathID("id")
	if err := c.err(); err != nil {
		return reply{}, err
	}
	if err := a.deps.Market.DeleteWebhook(ctx, c.user, id); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, nil
}
