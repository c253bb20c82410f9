package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"sort"
	"strings"
	"unicode/utf8"
)

// geoJSON is RFC 7946: a FeatureCollection, one Feature, or Features one after
// the other (a line each, or a text sequence as in RFC 8142). Places come from
// the geometry, [lng, lat], the rest from properties.
type geoJSON struct{}

var _ Format = geoJSON{}

func (geoJSON) Name() string { return "GeoJSON" }

func (geoJSON) Sniff(head []byte) bool {
	head = bytes.TrimLeft(head, " \t\r\n\x1e")
	if !bytes.HasPrefix(head, []byte("{")) {
		return false
	}
	for _, word := range []string{`"FeatureCollection"`, `"Feature"`, `"features"`} {
		if bytes.Contains(head, []byte(word)) {
			return true
		}
	}
	return false
}

func (geoJSON) Read(r io.Reader, o *Options) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		m, err := newMapping(o.Map)
		if err != nil {
			yield(Row{}, err)
			return
		}
		p := &geoParser{text: &jsonText{r: r}, mapping: m, yield: yield, seen: map[Field]bool{}, warn: o.warn}
		p.dec = json.NewDecoder(p.text)
		if err := p.file(); err != nil && err != errStop {
			yield(Row{}, err)
		}
	}
}

// errStop ends the reading because the caller wants no more.
var errStop = errors.New("stop")

type geoParser struct {
	text    *jsonText
	dec     *json.Decoder
	mapping mapping
	yield   func(Row, error) bool
	seen    map[Field]bool // of mapping
	warn    func(Warning)
}

// feature is a Feature with its parts unread.
type feature struct {
	Type       string                     `json:"type"`
	ID         json.RawMessage            `json:"id"`
	Geometry   json.RawMessage            `json:"geometry"`
	Properties map[string]json.RawMessage `json:"properties"`
}

// file reads all top-level objects.
func (p *geoParser) file() error {
	for {
		t, err := p.token()
		if err == io.EOF {
			p.unused()
			return nil
		}
		if err != nil {
			return p.broken(err)
		}
		if t != json.Delim('{') {
			return p.broken(errors.New("a GeoJSON object is wanted here"))
		}
		if err := p.object(); err != nil {
			return err
		}
	}
}

// unused warns of a mapping that no feature had: which properties there are is
// only known at the end.
func (p *geoParser) unused() {
	for field, column := range p.mapping {
		if column != "" && !p.seen[field] {
			p.warn(NoColumn)
		}
	}
}

// object reads a top-level object behind its "{".
func (p *geoParser) object() error {
	start := p.dec.InputOffset() - 1
	line := p.text.line(start)
	parts := map[string]json.RawMessage{}
	size := 0
	collection := false
	for p.more() {
		key, err := p.token()
		if err != nil {
			return p.broken(err)
		}
		if key == "features" {
			collection = true
			if err := p.features(); err != nil {
				return err
			}
			continue
		}
		raw, err := p.value()
		if err != nil {
			return p.broken(err)
		}
		// Together they are a record too, if this is a Feature.
		if size += len(raw); size > MaxRecord {
			return p.broken(errTooLong)
		}
		parts[key.(string)] = raw // a key is always a string
	}
	if _, err := p.token(); err != nil {
		return p.broken(err)
	}
	if collection {
		return nil
	}
	raw, err := json.Marshal(parts)
	if err != nil {
		return p.broken(err)
	}
	return p.feature(raw, line)
}

// features reads the array of a FeatureCollection.
func (p *geoParser) features() error {
	t, err := p.token()
	if err != nil {
		return p.broken(err)
	}
	if t != json.Delim('[') {
		return p.broken(errors.New("features is not an array"))
	}
	for p.more() {
		raw, err := p.value()
		if err != nil {
			return p.broken(err)
		}
		line := p.text.line(p.dec.InputOffset() - int64(len(raw)))
		if err := p.feature(raw, line); err != nil {
			return err
		}
	}
	if _, err := p.token(); err != nil {
		return p.broken(err)
	}
	return nil
}

// feature yields a feature.
func (p *geoParser) feature(raw json.RawMessage, line int) error {
	row := Row{Line: line, Raw: string(raw)}
	var f feature
	switch err := json.Unmarshal(raw, &f); {
	case !utf8.Valid(raw):
		row.Rejected = reject(NotUTF8, "the feature has text that is not UTF-8; turn the file into UTF-8")
	case err != nil:
		row.Rejected = reject(Malformed, "not a feature: %v", err)
	case f.Type != "Feature":
		row.Rejected = reject(Malformed, "the type is %.40q, not Feature", f.Type)
	default:
		var err error
		if row.Values, row.Rejected, err = p.values(&f); err != nil {
			return err
		}
		if row.Rejected == nil && row.Values[ID] == "" && row.Values[URL] == "" {
			row.Parts = []string{canonical(raw)}
		}
	}
	if !p.yield(row, nil) {
		return errStop
	}
	return nil
}

// canonical writes a feature without blanks and with its members sorted, so that
// it has the same hash alone as in a collection.
func canonical(raw json.RawMessage) string {
	var parts map[string]json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	b, err := json.Marshal(parts)
	if err != nil {
		return string(raw)
	}
	return string(b)
}

// values reads what a feature says.
func (p *geoParser) values(f *feature) (map[Field]string, *Rejection, error) {
	// Sorted, so that a message is the same each time.
	names := make([]string, 0, len(f.Properties))
	for name := range f.Properties {
		names = append(names, name)
	}
	if len(names) > MaxColumns {
		return nil, reject(Malformed, "more than %d properties", MaxColumns), nil
	}
	sort.Strings(names)

	// A property that this feature lacks is empty, whatever the mapping says;
	// lat and lng are the geometry's unless they are mapped, and so is the id.
	m := maps.Clone(p.mapping)
	for field, column := range m {
		if column == "" {
			continue
		}
		if len(indexes(names, column)) == 0 {
			m[field] = ""
		} else {
			p.seen[field] = true
		}
	}
	geometry := true
	for _, field := range []Field{Lat, Lng} {
		if _, ok := p.mapping[field]; ok {
			geometry = false
		}
	}
	if geometry {
		m[Lat], m[Lng] = "", ""
	}
	v := map[Field]string{}
	if _, ok := p.mapping[ID]; !ok && present(f.ID) {
		m[ID] = ""
		id, ok := scalar(f.ID)
		if !ok {
			return nil, reject(Malformed, "the id is neither text nor a number"), nil
		}
		v[ID] = id
	}
	found, err := m.find(names)
	if err != nil {
		return nil, nil, err
	}
	for field, i := range found {
		s, ok := scalar(f.Properties[names[i]])
		if !ok {
			return nil, reject(BadValue, "%s: the property %.60q is a list or an object; choose another with --map %s=PROPERTY, or none with --map %s=",
				field, names[i], field, field), nil
		}
		v[field] = s
	}
	if geometry {
		remote, no := yes(v[Remote])
		if no != nil || remote {
			return v, no, nil
		}
		return v, point(f.Geometry, v), nil
	}
	return v, nil, nil
}

// point reads a Point.
func point(raw json.RawMessage, v map[Field]string) *Rejection {
	if !present(raw) {
		return reject(MissingCoordinates, "there is no geometry")
	}
	var g struct {
		Type        string          `json:"type"`
		Coordinates json.RawMessage `json:"coordinates"`
	}
	if err := json.Unmarshal(raw, &g); err != nil {
		return reject(Malformed, "not a geometry: %v", err)
	}
	if g.Type != "Point" {
		return reject(NotAPoint, "the geometry is a %.40q", g.Type)
	}
	var xy []json.RawMessage
	if err := json.Unmarshal(g.Coordinates, &xy); err != nil && present(g.Coordinates) {
		return reject(Malformed, "not coordinates: %v", err)
	}
	if len(xy) < 2 {
		return reject(MissingCoordinates, "the point has %d coordinates", len(xy))
	}
	for i, field := range []Field{Lng, Lat} {
		s := string(bytes.TrimSpace(xy[i]))
		if !present(xy[i]) {
			return reject(MissingCoordinates, "%s is null", field)
		}
		if s[0] != '-' && (s[0] < '0' || s[0] > '9') {
			return reject(TextInNumber, "%s: %.60s is not a number", field, s)
		}
		v[field] = s
	}
	return nil
}

// present reports whether a value is there and not null.
func present(raw json.RawMessage) bool {
	s := bytes.TrimSpace(raw)
	return len(s) > 0 && !bytes.Equal(s, []byte("null"))
}

// scalar returns a text, number or truth value as text; null is "".
func scalar(raw json.RawMessage) (string, bool) {
	s := strings.TrimSpace(string(raw))
	switch {
	case !present(raw):
		return "", true
	case s[0] == '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return strings.TrimSpace(text), err == nil
	case s[0] == '{' || s[0] == '[':
		return "", false
	}
	return s, true
}

// token, value and more read on, and refuse what is longer than MaxRecord.
func (p *geoParser) token() (json.Token, error) {
	p.text.start = p.dec.InputOffset()
	return p.dec.Token()
}

func (p *geoParser) value() (json.RawMessage, error) {
	p.text.start = p.dec.InputOffset()
	var raw json.RawMessage
	err := p.dec.Decode(&raw)
	return raw, err
}

func (p *geoParser) more() bool {
	p.text.start = p.dec.InputOffset()
	return p.dec.More()
}

var errTooLong = fmt.Errorf("a record has more than %d bytes", MaxRecord)

// broken says where the file is broken.
func (p *geoParser) broken(err error) error {
	at := p.dec.InputOffset()
	reason := "not GeoJSON: " + err.Error()
	var syntax *json.SyntaxError
	switch {
	case p.text.err != nil && errors.Is(err, p.text.err):
		return readError(err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		at, reason = p.text.total, "the file ends in the middle"
	case errors.Is(err, errTooLong):
		reason = err.Error()
	case errors.As(err, &syntax):
		// A Decoder counts the bytes of values only, so the offset of an error
		// inside a value is found by reading that value again.
		rest, _ := io.ReadAll(p.dec.Buffered()) // from memory
		var again *json.SyntaxError
		if errors.As(json.Unmarshal(rest, new(json.RawMessage)), &again) && again.Error() == err.Error() {
			at += again.Offset - 1
		}
	}
	return &SyntaxError{Line: p.text.line(at), Reason: reason}
}

// jsonText is the file under a json.Decoder. It knows the lines, and ends a
// value that becomes too long: the decoder reads on only when all that it has
// read belongs to the value that it is at.
type jsonText struct {
	r     io.Reader
	total int64 // bytes read
	start int64 // where the value begins that the decoder is at
	err   error // what r said, if not io.EOF

	newlines []int64 // where the line breaks are that line has not passed
	passed   int
}

func (t *jsonText) Read(b []byte) (int, error) {
	if t.total-t.start > MaxRecord {
		return 0, errTooLong
	}
	n, err := t.r.Read(b)
	for i, c := range b[:n] {
		switch c {
		case '\n':
			t.newlines = append(t.newlines, t.total+int64(i))
		case 0x1e: // RFC 8142's record separator
			b[i] = ' '
		}
	}
	t.total += int64(n)
	if err != nil && err != io.EOF {
		t.err = err
	}
	return n, err
}

// line returns the number of the line that holds an offset. Offsets must not decrease.
func (t *jsonText) line(offset int64) int {
	n := sort.Search(len(t.newlines), func(i int) bool { return t.newlines[i] >= offset })
	t.newlines = t.newlines[n:]
	t.passed += n
	return t.passed + 1
}
