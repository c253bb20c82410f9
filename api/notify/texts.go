package notify

import (
	"fmt"
	"strings"
	"text/template"
	"unicode"

	"golang.org/x/text/language"

	"github.com/nearjob/nearjob/store"
)

// Lengths, in characters, to which what users wrote is cut within a text: push
// messages are shown on one or two lines, and FCM takes 4,096 bytes in all.
const (
	maxTitle = 40
	maxNote  = 120
)

// Texts are the words of all messages, in English and Korean. Make them with
// [NewTexts]. Safe for concurrent use.
type Texts struct {
	matcher   language.Matcher
	languages []string // as the matcher counts them
	templates map[textKey][2]*template.Template
}

type textKey struct {
	language string
	action   store.Action
	role     store.Role
}

type words struct{ title, body string }

// NewTexts reads the texts. Which language a user gets is chosen with
// golang.org/x/text/language, for tags have more forms ("ko-KR", lists with weights)
// than a comparison sees; the first language is for whoever has none of them.
func NewTexts() (*Texts, error) {
	t := &Texts{
		languages: []string{"en", "ko"},
		matcher:   language.NewMatcher([]language.Tag{language.English, language.Korean}),
		templates: make(map[textKey][2]*template.Template),
	}
	for _, lang := range t.languages {
		for at, w := range wordsOf(lang) {
			key := textKey{lang, at.action, at.role}
			var pair [2]*template.Template
			for i, text := range []string{w.title, w.body} {
				parsed, err := template.New(fmt.Sprintf("%s %s for %s", lang, at.action, at.role)).Option("missingkey=error").Parse(text)
				if err != nil {
					return nil, fmt.Errorf("read the texts: %w", err)
				}
				pair[i] = parsed
			}
			t.templates[key] = pair
		}
	}
	return t, nil
}

// Languages lists the languages that there are texts in; the first is the default.
func (t *Texts) Languages() []string { return append([]string(nil), t.languages...) }

// Language chooses from wishes, the most wanted first: language tags, or whole
// Accept-Language headers. Empty and unreadable ones are passed over.
func (t *Texts) Language(wishes ...string) string {
	_, i := language.MatchStrings(t.matcher, wishes...)
	return t.languages[i]
}

// Note puts a message into words. A message of an action that the texts do not
// know, from a newer program on the same database, is an error.
func (t *Texts) Note(m store.Message, lang string) (Note, error) {
	n := Note{
		ID: m.ID, Recipient: m.Recipient, Role: m.Role, Action: m.Action, Job: m.Job, JobTitle: m.Title, JobState: m.JobState,
		Application: m.Application, At: m.At, Note: m.Note, Language: t.Language(lang),
	}
	pair, ok := t.templates[textKey{n.Language, m.Action, m.Role}]
	if !ok {
		return Note{}, fmt.Errorf("message %s: there is no text for the action %.40q told to a %.40q", m.ID, m.Action, m.Role)
	}
	data := struct{ Job, Note, State string }{cut(m.Title, maxTitle), cut(m.Note, maxNote), string(m.JobState)}
	for i, to := range []*string{&n.Title, &n.Body} {
		var b strings.Builder
		if err := pair[i].Execute(&b, data); err != nil {
			return Note{}, fmt.Errorf("message %s: %w", m.ID, err)
		}
		*to = b.String()
	}
	return n, nil
}

// cut brings a text onto one line of at most n characters. It does not cut
// between a character and the marks that belong to it, nor within a joined emoji.
func cut(s string, n int) string {
	r := []rune(strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " "))
	if len(r) <= n {
		return string(r)
	}
	end := n - 1 // one is for the dots
	for end > 0 && (joins(r[end]) || r[end-1] == zeroWidthJoiner) {
		end--
	}
	return strings.TrimRight(string(r[:end]), " ") + "…"
}

const zeroWidthJoiner = '\u200d'

// joins reports whether a rune belongs to the one before it.
func joins(r rune) bool {
	return r == zeroWidthJoiner || unicode.Is(unicode.M, r) || r >= 0x1F3FB && r <= 0x1F3FF // skin tones
}

type told struct {
	action store.Action
	role   store.Role
}

// wordsOf are the texts of a language. {{.Job}} is the job's title and {{.Note}}
// what the other side wrote, both cut; {{.State}} is the job's state afterwards.
//
// The Korean is 해요체 throughout. A particle never follows the title itself,
// since its form would depend on the title's last letter: the word 일 stands between.
func wordsOf(lang string) map[told]words {
	if lang == "ko" {
		return map[told]words{
			{store.ActEdit, store.RoleWorker}: {
				`일의 내용이 바뀌었어요`,
				`지원하신 ‘{{.Job}}’ 일의 내용이 바뀌었어요. 바뀐 내용을 확인해 주세요.`},
			{store.ActApply, store.RoleRequester}: {
				`새로운 지원자가 있어요`,
				`‘{{.Job}}’ 일에 새로운 지원자가 있어요.{{with .Note}} 남긴 말: “{{.}}”{{end}}`},
			{store.ActWithdraw, store.RoleRequester}: {
				`지원이 취소되었어요`,
				`‘{{.Job}}’ 일에 지원하신 분이 지원을 취소하셨어요.{{with .Note}} 사유: “{{.}}”{{end}}`},
			{store.ActAccept, store.RoleWorker}: {
				`지원이 수락되었어요`,
				`‘{{.Job}}’ 일을 맡게 되셨어요. 일을 시작하실 때 알려 주세요.`},
			{store.ActDecline, store.RoleWorker}: {
				`지원이 거절되었어요`,
				`아쉽지만 ‘{{.Job}}’ 일에 대한 지원이 거절되었어요.{{with .Note}} 사유: “{{.}}”{{end}}`},
			{store.ActPassOver, store.RoleWorker}: {
				`다른 분이 일을 맡게 되셨어요`,
				`‘{{.Job}}’ 일은 다른 분이 맡게 되셨어요. 다시 지원을 받으면 알려 드릴게요.`},
			{store.ActStart, store.RoleRequester}: {
				`일이 시작되었어요`,
				`맡으신 분이 ‘{{.Job}}’ 일을 시작하셨어요.`},
			{store.ActFinish, store.RoleRequester}: {
				`일을 마치셨다고 해요`,
				`맡으신 분이 ‘{{.Job}}’ 일을 마쳤다고 알려 오셨어요. 확인해 주세요.`},
			{store.ActConfirm, store.RoleWorker}: {
				`일이 완료되었어요`,
				`의뢰하신 분이 ‘{{.Job}}’ 일이 끝난 것을 확인하셨어요. 수고 많으셨어요.`},
			{store.ActRework, store.RoleWorker}: {
				`보완 요청이 있어요`,
				`의뢰하신 분이 ‘{{.Job}}’ 일을 보완해 달라고 요청하셨어요.{{with .Note}} 사유: “{{.}}”{{end}}`},
			{store.ActReject, store.RoleWorker}: {
				`일의 결과가 받아들여지지 않았어요`,
				`의뢰하신 분이 ‘{{.Job}}’ 일의 결과를 받아들이지 않으셨어요.{{with .Note}} 사유: “{{.}}”{{end}}`},
			{store.ActResign, store.RoleRequester}: {
				`맡으신 분이 일을 그만두셨어요`,
				`맡으신 분이 ‘{{.Job}}’ 일을 그만두셨어요. {{if eq .State "open"}}지금 다시 지원을 받고 있어요.{{else}}모집 기한이 지나 더 이상 지원을 받지 않아요.{{end}}{{with .Note}} 사유: “{{.}}”{{end}}`},
			{store.ActExpire, store.RoleRequester}: {
				`모집 기한이 지났어요`,
				`‘{{.Job}}’ 일의 모집 기한이 지나 더 이상 지원을 받지 않아요.`},
			{store.ActVoid, store.RoleWorker}: {
				`{{if eq .State "expired"}}모집 기한이 지났어요{{else}}일이 취소되었어요{{end}}`,
				`{{if eq .State "expired"}}‘{{.Job}}’ 일의 모집 기한이 지나 지원이 종료되었어요.{{else}}의뢰하신 분이 ‘{{.Job}}’ 일을 취소하셨어요.{{with .Note}} 사유: “{{.}}”{{end}}{{end}}`},
			{store.ActReopen, store.RoleWorker}: {
				`다시 지원할 수 있어요`,
				`‘{{.Job}}’ 일이 다시 지원을 받고 있어요. 원하시면 다시 지원해 주세요.`},
			{store.ActOpened, store.RoleWorker}: {
				`근처에 새로운 일이 있어요`,
				`알림을 설정하신 지역에서 ‘{{.Job}}’ 일의 지원을 받고 있어요. 원하시면 지원해 주세요.`},
		}
	}
	return map[told]words{
		{store.ActEdit, store.RoleWorker}: {
			`Job changed`,
			`“{{.Job}}”, which you applied for, has changed. Please look at it again.`},
		{store.ActApply, store.RoleRequester}: {
			`New applicant`,
			`Somebody applied for “{{.Job}}”.{{with .Note}} They wrote: “{{.}}”{{end}}`},
		{store.ActWithdraw, store.RoleRequester}: {
			`Application withdrawn`,
			`An applicant for “{{.Job}}” has withdrawn.{{with .Note}} Reason: “{{.}}”{{end}}`},
		{store.ActAccept, store.RoleWorker}: {
			`You got the job`,
			`You were accepted for “{{.Job}}”. Tell us when you start.`},
		{store.ActDecline, store.RoleWorker}: {
			`Application declined`,
			`Your application for “{{.Job}}” was declined.{{with .Note}} Reason: “{{.}}”{{end}}`},
		{store.ActPassOver, store.RoleWorker}: {
			`Another worker was chosen`,
			`“{{.Job}}” went to another worker. We will tell you if it opens again.`},
		{store.ActStart, store.RoleRequester}: {
			`Work has started`,
			`The worker has started “{{.Job}}”.`},
		{store.ActFinish, store.RoleRequester}: {
			`Work reported as done`,
			`The worker says that “{{.Job}}” is done. Please check and confirm.`},
		{store.ActConfirm, store.RoleWorker}: {
			`Work confirmed`,
			`The requester confirmed that “{{.Job}}” is done. Thank you!`},
		{store.ActRework, store.RoleWorker}: {
			`Not done yet`,
			`The requester asks for more work on “{{.Job}}”.{{with .Note}} Reason: “{{.}}”{{end}}`},
		{store.ActReject, store.RoleWorker}: {
			`Work not accepted`,
			`The requester did not accept your work on “{{.Job}}”.{{with .Note}} Reason: “{{.}}”{{end}}`},
		{store.ActResign, store.RoleRequester}: {
			`The worker has resigned`,
			`The worker has resigned from “{{.Job}}”. {{if eq .State "open"}}The job takes applications again.{{else}}The job's time has passed, so it takes no more applications.{{end}}{{with .Note}} Reason: “{{.}}”{{end}}`},
		{store.ActExpire, store.RoleRequester}: {
			`Job expired`,
			`The time of “{{.Job}}” has passed. It takes no more applications.`},
		{store.ActVoid, store.RoleWorker}: {
			`{{if eq .State "expired"}}Job expired{{else}}Job cancelled{{end}}`,
			`{{if eq .State "expired"}}The time of “{{.Job}}” has passed, and your application has ended.{{else}}The requester cancelled “{{.Job}}”.{{with .Note}} Reason: “{{.}}”{{end}}{{end}}`},
		{store.ActReopen, store.RoleWorker}: {
			`Open again`,
			`“{{.Job}}” takes applications again. You can apply once more.`},
		{store.ActOpened, store.RoleWorker}: {
			`A job near you`,
			`“{{.Job}}” is open in an area that you have an alert for.`},
	}
}
