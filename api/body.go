package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	typeMergePatch = "application/merge-patch+json"

	maxDepth = 16 // of objects and arrays in one another
)

// readBody reads the body of a request as JSON. It reports false where there
// is none. The error is a *Problem of status 400, 413 or 415; what is well-formed but
// wrong is in f.
//
// Package encoding/json alone is too kind for what others will read as fact: it
// passes over unknown names, takes the last of two equal ones and names in any
// case, and puts U+FFFD where text is broken.
func readBody(r *http.Request, patch bool, f *faults) (body any, given bool, err error) {
	ctx := r.Context()
	raw, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, false, newProblem(ctx, http.StatusRequestEntityTooLarge, fmt.Sprintf("The body is larger than %d bytes.", tooLarge.Limit))
	case err != nil:
		return nil, false, newProblem(ctx, http.StatusBadRequest, "The body cannot be read to its end.")
	case len(raw) == 0:
		return nil, false, nil
	}
	if fault := bodyType(r.Header, patch); fault != "" {
		p := newProblem(ctx, http.StatusUnsupportedMediaType, fault)
		p.header = http.Header{"Accept": {typeJSON}}
		if patch {
			p.header = http.Header{"Accept-Patch": {typeMergePatch + ", " + typeJSON}}
		}
		return nil, false, p
	}
	if !utf8.Valid(raw) {
		return nil, false, newProblem(ctx, http.StatusBadRequest, "The body is not valid UTF-8.")
	}
	var probe json.RawMessage
	if err := json.Unmarshal(raw, &probe); err != nil {
		at := ""
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at = fmt.Sprintf(" (at byte %d)", syntax.Offset)
		}
		return nil, false, newProblem(ctx, http.StatusBadRequest, "The body is not one JSON value: "+err.Error()+at+".")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := tree(d, "", 0, f)
	if err != nil {
		return nil, false, newProblem(ctx, http.StatusBadRequest, "The body cannot be read: "+err.Error()+".")
	}
	// The decoder writes U+FFFD for half of a surrogate pair.
	const replacement = "\uFFFD"
	if has(v, replacement) && !bytes.Contains(raw, []byte(replacement)) && !bytes.Contains(bytes.ToLower(raw), []byte(`\ufffd`)) {
		f.add("body", `has half of a surrogate pair, such as \ud800 alone`)
	}
	return v, true, nil
}

// bodyType says what is wrong with the type of a body.
func bodyType(h http.Header, patch bool) string {
	want := typeJSON
	if patch {
		want = typeMergePatch + " or " + typeJSON
	}
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return fmt.Sprintf("The body is encoded as %.40q: send it as it is.", e)
	}
	name, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || name != typeJSON && !(patch && name == typeMergePatch) {
		return fmt.Sprintf("The body's Content-Type is %.80q: want %s.", h.Get("Content-Type"), want)
	}
	if c := params["charset"]; c != "" && !strings.EqualFold(c, "utf-8") {
		return fmt.Sprintf("The body's charset is %.40q: want utf-8.", c)
	}
	return ""
}

// tree reads a value: map[string]any, []any, json.Number, string, bool or nil.
// Strings are brought to Unicode's form NFC, names are not.
func tree(d *json.Decoder, path string, depth int, f *faults) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case string:
		if strings.ContainsFunc(t, turns) {
			f.add(path, "has a character that turns the direction of the text around it, such as U+202E: leave it out")
		}
		return norm.NFC.String(t), nil
	case json.Delim:
		if t == '[' {
			list := []any{}
			for d.More() {
				v, err := tree(d, fmt.Sprintf("%s[%d]", path, len(list)), depth+1, f)
				if err != nil {
					return nil, err
				}
				list = append(list, v)
			}
			_, err = d.Token()
			return list, err
		}
		object := map[string]any{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			field := join(path, name.(string))
			if _, twice := object[name.(string)]; twice {
				f.add(field, "is given twice: want it once")
			}
			v, err := tree(d, field, depth+1, f)
			if err != nil {
				return nil, err
			}
			object[name.(string)] = v
		}
		_, err = d.Token()
		return object, err
	}
	return t, nil
}

// join is the path of a field, with a made-up name cut.
func join(path, name string) string {
	name = fmt.Sprintf("%.40s", name)
	if path == "" {
		return name
	}
	return path + "." + name
}

func has(v any, s string) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, s)
	case []any:
		return slices.ContainsFunc(v, func(x any) bool { return has(x, s) })
	case map[string]any:
		for name, x := range v {
			if strings.Contains(name, s) || has(x, s) {
				return true
			}
		}
	}
	return false
}

// fill sets dst, a struct of the types below, from the body, if there is one; every
// fault is told with its path. A field that the body does not have stays nil.
func (c *call) fill(dst any) {
	if c.given {
		c.fillValue("", reflect.ValueOf(dst).Elem(), c.body)
	}
}

func (f *faults) fillValue(path string, dst reflect.Value, v any) {
	wrong := func(want string) {
		field := path
		if field == "" {
			field = "body"
		}
		hint := ""
		if v == nil {
			hint = ": leave it out"
		}
		f.add(field, "is %s, not %s%s", kindOf(v), want, hint)
	}
	if dst.Kind() == reflect.Pointer {
		fresh := reflect.New(dst.Type().Elem())
		before := len(f.list)
		if f.fillValue(path, fresh.Elem(), v); len(f.list) == before || fresh.Elem().Kind() == reflect.Struct {
			dst.Set(fresh)
		}
		return
	}
	switch dst.Kind() {
	case reflect.String:
		if isNumber := dst.Type() == reflect.TypeFor[number]() || dst.Type() == reflect.TypeFor[amount](); isNumber {
			if n, ok := v.(json.Number); ok {
				dst.SetString(n.String())
				return
			}
			wrong("a number")
			return
		}
		if s, ok := v.(string); ok {
			dst.SetString(s)
			return
		}
		wrong("text")
	case reflect.Bool:
		if b, ok := v.(bool); ok {
			dst.SetBool(b)
			return
		}
		wrong("true or false")
	case reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			wrong("a list")
			return
		}
		dst.Set(reflect.MakeSlice(dst.Type(), len(list), len(list)))
		for i, x := range list {
			f.fillValue(fmt.Sprintf("%s[%d]", path, i), dst.Index(i), x)
		}
	case reflect.Struct:
		object, ok := v.(map[string]any)
		if !ok {
			wrong("an object")
			return
		}
		var names []string
		for i := range dst.NumField() {
			name, _, _ := strings.Cut(dst.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
			if x, given := object[name]; given {
				f.fillValue(join(path, name), dst.Field(i), x)
			}
		}
		f.unknown(path, object, names)
	default:
		panic("api: no reader for " + dst.Type().String()) // a fault in the types, found by any test
	}
}

// unknown adds the names of an object that are not among those wanted.
func (f *faults) unknown(path string, object map[string]any, names []string) {
	n := 0
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if slices.Contains(names, name) {
			continue
		}
		if n++; n <= maxUnknown {
			f.add(join(path, name), "is not known here: want %s", strings.Join(names, ", "))
		}
	}
	if n > maxUnknown {
		f.add(join(path, "body"), "%d names are unknown, of which %d are listed", n, maxUnknown)
	}
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case json.Number:
		return "a number"
	case string:
		return "text"
	case []any:
		return "a list"
	}
	return "an object"
}

// mergePatch applies a patch of RFC 7396.
func mergePatch(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	object, _ := target.(map[string]any)
	merged := maps.Clone(object)
	if merged == nil {
		merged = map[string]any{}
	}
	for name, v := range changes {
		if v == nil {
			delete(merged, name)
		} else {
			merged[name] = mergePatch(merged[name], v)
		}
	}
	return merged
}

// turns reports whether a character embeds, overrides or isolates a direction of text
// (Unicode Standard Annex 9): with it a text can pass for another, and spoil what is
// written behind it. The marks that Arabic and Hebrew need do neither.
func turns(r rune) bool { return r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 }

// line reads a text of one line. Package store folds white space, but a control
// character is no white space that anybody meant.
func (f *faults) line(field string, s *string) string {
	if s == nil {
		return ""
	}
	if strings.IndexFunc(*s, unicode.IsControl) >= 0 {
		f.add(field, "has a control character: want one line of text")
	}
	return *s
}

// value is what a pointer leads to, or nothing.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
