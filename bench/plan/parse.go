package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"regexp"
	"sort"
	"strings"
	"unicode/utf16"
)

// Limits of what [Parse] accepts. A plan with an IN list of 40,000 values has
// about 2 MB; MySQL joins at most 61 tables in one block.
const (
	MaxBytes = 16 << 20
	MaxLines = 500_000
	MaxDepth = 1000
	MaxNodes = 100_000
)

// Errors of [Parse], which wraps them with the place and with what to do.
var (
	ErrTooLarge = errors.New("the plan is too large")
	ErrNoPlan   = errors.New("no plan found")
)

// maxJSONFaults bounds how often a broken JSON text is tried again further down.
const maxJSONFaults = 20

// Parse reads the plans in r, in their order. It accepts any text that holds
// EXPLAIN output in one of the three formats; what is around it goes to
// [Plan.Frame] and [Plan.Unread] of the plan before it, or of the first one.
//
// The error is [ErrTooLarge] beyond [MaxBytes], [MaxLines], [MaxDepth] or
// [MaxNodes], [ErrNoPlan] if there is none to read, or an error of r.
func Parse(r io.Reader) ([]Plan, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxBytes)
	}
	lines, err := splitLines(decodeText(data))
	if err != nil {
		return nil, err
	}
	p := &parser{lines: lines}
	return p.parse()
}

// decodeText returns the text of data as UTF-8. PowerShell's redirection writes
// UTF-16 with a byte order mark. Invalid UTF-8 stays as it is.
func decodeText(data []byte) string {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if bytes.Contains(data, []byte("-&gt; ")) && !bytes.Contains(data, []byte("-> ")) {
		// Copied from the source of a web page, or from mysql --html.
		data = []byte(html.UnescapeString(string(data)))
	}
	little := bytes.HasPrefix(data, []byte{0xff, 0xfe})
	if !little && !bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		return string(data)
	}
	units := make([]uint16, 0, len(data)/2)
	for i := 2; i+1 < len(data); i += 2 {
		unit := uint16(data[i])<<8 | uint16(data[i+1])
		if little {
			unit = unit>>8 | unit<<8
		}
		units = append(units, unit)
	}
	return string(utf16.Decode(units))
}

// A line is a line of the input, or a part of one that was written with \n.
type line struct {
	Line
	content string // without the client's frame
	prefix  int    // bytes of Text before content
}

var (
	// escapedBreak is a line break as mysql -B and JSON strings write it, before
	// something that starts a line of a plan.
	escapedBreak = regexp.MustCompile(`\\n *(->|"|\{|\}|\]|<not exec|\\n|$)`)
	htmlCell     = regexp.MustCompile(`^<TABLE BORDER=1><TR><TH>EXPLAIN</TH></TR><TR><TD>`)
	label        = regexp.MustCompile(`^\s*EXPLAIN: `)
)

func splitLines(text string) ([]line, error) {
	var lines []line
	number := 0
	for raw := range strings.SplitSeq(text, "\n") {
		// A line with escaped breaks has at most MaxBytes/2 parts, so one check for
		// each line is enough.
		if number++; len(lines) > MaxLines {
			return nil, fmt.Errorf("%w: more than %d lines", ErrTooLarge, MaxLines)
		}
		raw = strings.TrimSuffix(raw, "\r")
		if inner, ok := jsonWrapped(raw); ok {
			// A JSON document on one line that holds the plan in a string.
			for part := range strings.SplitSeq(inner, "\n") {
				lines = append(lines, newLine(number, strings.TrimSuffix(part, "\r")))
			}
			continue
		}
		l := newLine(number, raw)
		start := strings.TrimLeft(strings.TrimLeft(l.content, " \t"), `"'`)
		plan := strings.HasPrefix(start, "-> ") || strings.HasPrefix(start, "{") || strings.HasPrefix(start, notExecutable)
		if !plan || !escapedBreak.MatchString(l.content) {
			lines = append(lines, l)
			continue
		}
		for part := range strings.SplitSeq(unescape(raw), "\n") {
			lines = append(lines, newLine(number, strings.TrimSuffix(part, "\r")))
		}
	}
	if len(lines) > 0 && lines[len(lines)-1].Text == "" {
		lines = lines[:len(lines)-1]
	}
	return lines, nil
}

// jsonWrapped returns the plan in a line such as
//
//	"-> Limit: 5 row(s)\n    -> ..."
//	{"EXPLAIN": "-> Limit: ..."}
//	[{"EXPLAIN": "{\n  \"query_block\": ..."}]
func jsonWrapped(raw string) (string, bool) {
	s := strings.TrimRight(strings.TrimSpace(raw), ",;")
	if len(s) < 2 || s[0] != '"' && s[0] != '{' && s[0] != '[' {
		return "", false
	}
	var text string
	if s[0] == '"' {
		if json.Unmarshal([]byte(s), &text) != nil {
			return "", false
		}
	} else {
		var row map[string]string
		if s[0] == '{' {
			if json.Unmarshal([]byte(s), &row) != nil {
				return "", false
			}
		} else {
			var rows []map[string]string
			if json.Unmarshal([]byte(s), &rows) != nil || len(rows) != 1 {
				return "", false
			}
			row = rows[0]
		}
		if len(row) != 1 {
			return "", false
		}
		for name, value := range row {
			if !strings.EqualFold(name, "EXPLAIN") {
				return "", false
			}
			text = value
		}
	}
	start := strings.TrimSpace(text)
	return text, strings.HasPrefix(start, "-> ") || strings.HasPrefix(start, "{") || strings.HasPrefix(start, notExecutable)
}

// unescape undoes what mysql -B writes for bytes that would break a row.
func unescape(s string) string {
	return strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r", `\t`, "\t", `\0`, "\x00").Replace(s)
}

// newLine takes the client's frame off a line: the borders of a cell, or the
// column's name in vertical output.
func newLine(number int, text string) line {
	l := line{Line: Line{number, text}, content: text}
	if at := htmlCell.FindStringIndex(text); at != nil {
		l.content, l.prefix = strings.TrimSuffix(text[at[1]:], "</TD></TR></TABLE>"), at[1]
	} else if bar := strings.TrimLeft(text, " \t"); strings.HasPrefix(bar, "|") {
		l.content = strings.TrimPrefix(bar[1:], " ")
		l.prefix = len(text) - len(l.content)
		if trimmed := strings.TrimRight(l.content, " \t"); strings.HasSuffix(trimmed, "|") {
			l.content = strings.TrimRight(trimmed[:len(trimmed)-1], " \t")
		}
	} else if at := label.FindStringIndex(text); at != nil {
		l.content, l.prefix = text[at[1]:], at[1]
	}
	return l
}

// A parser goes through the lines once.
type parser struct {
	lines []line
	i     int
	nodes int

	plans          []*Plan
	frame, unread  []Line // before the first plan
	warnings       []Warning
	tree           *treeReader // of the last plan, while it is open
	text           string      // the contents of all lines, for the JSON decoder
	starts         []int       // where each line begins in text
	faults         int
	firstFault     error
	traditionalRow int // the line of a header of a traditional plan
}

func (p *parser) parse() ([]Plan, error) {
	for p.i < len(p.lines) {
		l := p.lines[p.i]
		var err error
		switch start := trimIndent(l.content); {
		case start == "":
			if l.content != l.Text || l.Text != "" {
				p.addFrame(l.Line)
			}
			p.i++
		case p.prompt(l):
		case frameLine(l):
			p.close()
			p.addFrame(l.Line)
			p.i++
		case arrow(start):
			err = p.node(l)
			p.i++
		case p.tree != nil && p.tree.continues(start):
			p.tree.extend(l)
			p.i++
		case strings.HasPrefix(start, "{"):
			p.close()
			err = p.json(l)
		default:
			p.addUnread(l.Line)
			if strings.Contains(start, "select_type") && strings.Contains(start, "possible_keys") && p.traditionalRow == 0 {
				p.traditionalRow = l.Number
			}
			p.i++
		}
		if err != nil {
			return nil, err
		}
	}
	p.close()
	if len(p.plans) == 0 {
		return nil, p.noPlan()
	}
	first := p.plans[0]
	first.Frame = append(p.frame, first.Frame...)
	first.Unread = append(p.unread, first.Unread...)
	first.Warnings = append(p.warnings, first.Warnings...)
	plans := make([]Plan, len(p.plans))
	for i, plan := range p.plans {
		plans[i] = *plan
	}
	return plans, nil
}

func (p *parser) noPlan() error {
	switch {
	case p.firstFault != nil:
		return fmt.Errorf("%w: %w; paste the whole output", ErrNoPlan, p.firstFault)
	case p.traditionalRow > 0:
		return fmt.Errorf("%w: line %d begins a plan in the traditional format, which has no tree; take it with EXPLAIN FORMAT=TREE or FORMAT=JSON",
			ErrNoPlan, p.traditionalRow)
	case len(p.unread) == 0:
		return fmt.Errorf("%w: the text is empty; give the output of EXPLAIN ANALYZE, EXPLAIN FORMAT=TREE or EXPLAIN FORMAT=JSON", ErrNoPlan)
	}
	first := p.unread[0]
	return fmt.Errorf("%w: line %d is %q, and nothing after it is the output of EXPLAIN ANALYZE, EXPLAIN FORMAT=TREE or EXPLAIN FORMAT=JSON",
		ErrNoPlan, first.Number, clip(first.Text, 60))
}

// clip cuts s to about n runes.
func clip(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i] + "..."
		}
		n--
	}
	return s
}

// trimIndent removes white space, also the no-break spaces of web pages, and a
// quotation mark around a cell.
func trimIndent(s string) string {
	s = strings.TrimSpace(s)
	for _, quote := range []string{`"`, `'`} {
		if rest, found := strings.CutPrefix(s, quote); found && (arrow(rest) || strings.HasPrefix(rest, "{")) {
			return rest
		}
	}
	return s
}

func arrow(start string) bool {
	return strings.HasPrefix(start, "-> ") || start == "->" || strings.HasPrefix(start, notExecutable)
}

var (
	promptLine = regexp.MustCompile(`(?i)^\s*(mysql|mariadb)( ?\[[^\]]*\]| [^>]*)?> ?`)
	rowCount   = regexp.MustCompile(`^(\d+ rows? in set|Empty set|Query OK|Database changed)\b`)
	border     = regexp.MustCompile(`^(\+[-=+]+\+?|[-=]{4,}|\*{3,} \d+\. row \*{3,}|` + "```.*" + `)$`)
)

// frameLine reports whether a line is one that the client writes around a result.
func frameLine(l line) bool {
	s := strings.TrimSpace(l.Text)
	content := strings.TrimSpace(l.content)
	return border.MatchString(s) || rowCount.MatchString(s) || content == "EXPLAIN" || content == `"EXPLAIN"` || s == "Bye" ||
		strings.HasPrefix(s, "mysql: [Warning]") || s == "</TD></TR></TABLE>" || s == `"` || s == `'`
}

// prompt reads a statement at the client's prompt, with its further lines, which
// begin with an arrow as operations do.
func (p *parser) prompt(l line) bool {
	at := promptLine.FindStringIndex(l.Text)
	if at == nil {
		return false
	}
	p.close()
	statement := strings.TrimSpace(l.Text[at[1]:])
	for {
		p.addFrame(p.lines[p.i].Line)
		p.i++
		if statement == "" || strings.HasSuffix(statement, ";") || strings.HasSuffix(statement, `\G`) || strings.HasSuffix(statement, `\g`) {
			return true
		}
		if p.i == len(p.lines) {
			return true
		}
		next := p.lines[p.i]
		start := strings.TrimSpace(next.Text)
		if next.prefix > 0 || frameLine(next) || !strings.HasPrefix(start, "->") && !strings.HasPrefix(start, "'>") &&
			!strings.HasPrefix(start, `">`) && !strings.HasPrefix(start, "`>") {
			return true
		}
		statement = strings.TrimSpace(start[2:])
	}
}

func (p *parser) addFrame(l Line) {
	if len(p.plans) == 0 {
		p.frame = append(p.frame, l)
		return
	}
	last := p.plans[len(p.plans)-1]
	last.Frame = append(last.Frame, l)
}

func (p *parser) addUnread(l Line) {
	if len(p.plans) == 0 {
		p.unread = append(p.unread, l)
		return
	}
	last := p.plans[len(p.plans)-1]
	last.Unread = append(last.Unread, l)
}

func (p *parser) warn(line int, format string, args ...any) {
	w := Warning{line, fmt.Sprintf(format, args...)}
	if len(p.plans) == 0 {
		p.warnings = append(p.warnings, w)
		return
	}
	last := p.plans[len(p.plans)-1]
	last.Warnings = append(last.Warnings, w)
}

// count bounds the nodes of one input.
func (p *parser) count(line, depth int) error {
	if p.nodes++; p.nodes > MaxNodes {
		return fmt.Errorf("line %d: %w: more than %d operations", line, ErrTooLarge, MaxNodes)
	}
	if depth > MaxDepth {
		return fmt.Errorf("line %d: %w: more than %d levels", line, ErrTooLarge, MaxDepth)
	}
	return nil
}

// json reads a JSON plan that begins in line l.
func (p *parser) json(l line) error {
	if p.starts == nil {
		var text strings.Builder
		for _, l := range p.lines {
			p.starts = append(p.starts, text.Len())
			text.WriteString(l.content)
			text.WriteByte('\n')
		}
		p.text = text.String()
	}
	offset := p.starts[p.i] + strings.IndexByte(l.content, '{')
	v, end, err := decodeJSON(p.text, offset, p.lineAt)
	if err == nil {
		plan, e := p.jsonPlan(v)
		if e != nil {
			return e
		}
		if plan == nil {
			err = fmt.Errorf("line %d: the JSON object is no plan: it has neither query_block nor query_plan", l.Number)
		} else {
			if before := l.content[:offset-p.starts[p.i]]; strings.Trim(before, " \t\"'") != "" {
				p.addUnread(Line{l.Number, before})
			}
			p.plans = append(p.plans, plan)
			last := p.indexAt(end - 1)
			rest := p.text[end : p.starts[last]+len(p.lines[last].content)]
			if strings.Trim(rest, " \t|\"',;") != "" {
				p.addUnread(Line{p.lines[last].Number, rest})
			}
			p.i = last + 1
			return nil
		}
	}
	if errors.Is(err, ErrTooLarge) {
		return err
	}
	p.faults++
	if p.firstFault == nil {
		p.firstFault = err
	}
	if p.faults <= maxJSONFaults {
		p.warn(l.Number, "not read: %v", err)
	}
	// What follows are members of the broken object, which must not be taken for
	// plans of their own.
	if v != nil {
		for end := p.indexAt(end - 1); p.i <= end; p.i++ {
			p.addUnread(p.lines[p.i].Line)
		}
		return nil
	}
	for first := true; p.i < len(p.lines); p.i++ {
		next := p.lines[p.i]
		if !first && p.faults < maxJSONFaults && (frameLine(next) || arrow(trimIndent(next.content)) || next.prefix > 0 && strings.HasPrefix(trimIndent(next.content), "{")) {
			return nil
		}
		p.addUnread(next.Line)
		first = false
	}
	return nil
}

// indexAt returns the index of the line that holds an offset of the text.
func (p *parser) indexAt(offset int) int {
	return sort.Search(len(p.starts), func(i int) bool { return p.starts[i] > offset }) - 1
}

func (p *parser) lineAt(offset int) int { return p.lines[p.indexAt(offset)].Number }
