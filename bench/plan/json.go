package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A value is a JSON value with its place in the input and the order of its
// members, both of which encoding/json drops.
type value struct {
	kind          byte // {, [, s (string), n (number), t (true), f (false), 0 (null)
	text          string
	raw           string
	members       []member
	items         []*value
	line, endLine int
}

type member struct {
	name string
	*value
	used bool
}

// take returns the member with the name and marks it as read, or nil.
func (v *value) take(name string) *value {
	for i := range v.members {
		if m := &v.members[i]; m.name == name && !m.used {
			m.used = true
			return m.value
		}
	}
	return nil
}

// peek returns the member with the name if it was not taken, or nil.
func (v *value) peek(name string) *value {
	if v == nil {
		return nil
	}
	for i := range v.members {
		if m := &v.members[i]; m.name == name && !m.used {
			return m.value
		}
	}
	return nil
}

// takeString takes a member if it is a string.
func (v *value) takeString(name string) string {
	if m := v.peek(name); m == nil || m.kind != 's' {
		return ""
	}
	return v.take(name).text
}

// takeBool takes a member if it is a boolean.
func (v *value) takeBool(name string) bool {
	m := v.peek(name)
	if m == nil || m.kind != 't' && m.kind != 'f' {
		return false
	}
	return v.take(name).kind == 't'
}

// takeNumber takes a member if it is a number, or a number in a string, as
// version 1 writes costs.
func (v *value) takeNumber(name string) *float64 {
	f := v.peekNumber(name)
	if f != nil {
		v.take(name)
	}
	return f
}

// peekNumber is takeNumber for a member that is kept as an attribute too.
func (v *value) peekNumber(name string) *float64 {
	m := v.peek(name)
	if m == nil || m.kind != 'n' && m.kind != 's' {
		return nil
	}
	f, ok := number(m.text)
	if !ok {
		return nil
	}
	return &f
}

// strings returns the items of an array of strings.
func (v *value) strings() []string {
	if v == nil || v.kind != '[' {
		return nil
	}
	var list []string
	for _, item := range v.items {
		if item.kind != 's' {
			return nil
		}
		list = append(list, item.text)
	}
	return list
}

// rest returns the members that were not taken.
func (v *value) rest(prefix string) []Attribute {
	var rest []Attribute
	for i := range v.members {
		if m := &v.members[i]; !m.used {
			m.used = true
			rest = append(rest, Attribute{prefix + m.name, json.RawMessage(m.raw)})
		}
	}
	return rest
}

// maxValues bounds the values of one JSON text.
const maxValues = 500_000

type jsonReader struct {
	dec    *json.Decoder
	text   string
	offset int
	values int
	lineAt func(int) int
}

// decodeJSON reads the value that begins at an offset of text, and returns the
// offset behind it.
func decodeJSON(text string, offset int, lineAt func(int) int) (*value, int, error) {
	r := &jsonReader{dec: json.NewDecoder(strings.NewReader(text[offset:])), text: text, offset: offset, lineAt: lineAt}
	r.dec.UseNumber()
	v, err := r.value(0)
	if err != nil {
		return nil, 0, err
	}
	return v, offset + int(r.dec.InputOffset()), nil
}

func (r *jsonReader) fault(err error) error {
	at := r.offset + int(r.dec.InputOffset())
	line := r.lineAt(min(at, len(r.text)-1))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the JSON text that begins in line %d ends in the middle", r.lineAt(r.offset))
	}
	return fmt.Errorf("line %d or after: %w", line, err)
}

func (r *jsonReader) value(depth int) (*value, error) {
	// An operation takes two levels: the object and the array of inputs.
	if depth > 2*MaxDepth+10 {
		return nil, fmt.Errorf("line %d: %w: more than %d levels", r.lineAt(r.offset+int(r.dec.InputOffset())), ErrTooLarge, MaxDepth)
	}
	if r.values++; r.values > maxValues {
		return nil, fmt.Errorf("%w: more than %d JSON values", ErrTooLarge, maxValues)
	}
	start := r.offset + int(r.dec.InputOffset())
	for start < len(r.text) && strings.IndexByte(" \t\r\n:,", r.text[start]) >= 0 {
		start++
	}
	token, err := r.dec.Token()
	if err != nil {
		return nil, r.fault(err)
	}
	v := &value{line: r.lineAt(min(start, len(r.text)-1))}
	switch t := token.(type) {
	case json.Delim:
		v.kind = byte(t)
		for r.dec.More() {
			name := ""
			if t == '{' {
				token, err := r.dec.Token()
				if err != nil {
					return nil, r.fault(err)
				}
				// The decoder has refused everything but a string.
				name, _ = token.(string)
			}
			item, err := r.value(depth + 1)
			if err != nil {
				return nil, err
			}
			if t == '{' {
				v.members = append(v.members, member{name: name, value: item})
			} else {
				v.items = append(v.items, item)
			}
		}
		if _, err := r.dec.Token(); err != nil {
			return nil, r.fault(err)
		}
	case string:
		v.kind, v.text = 's', t
	case json.Number:
		v.kind, v.text = 'n', t.String()
	case bool:
		v.kind = 'f'
		if t {
			v.kind = 't'
		}
	}
	end := r.offset + int(r.dec.InputOffset())
	v.raw = r.text[start:end]
	v.endLine = r.lineAt(end - 1)
	return v, nil
}

// jsonPlan makes a plan of a JSON object, or returns nil if it is none.
func (p *parser) jsonPlan(v *value) (*Plan, error) {
	plan := &Plan{Line: v.line, EndLine: v.endLine}
	j := &jsonPlanner{parser: p, plan: plan}
	var err error
	switch {
	case isObject(v.peek("query_block")):
		plan.Format = JSON1
		plan.Root, err = j.block(v.take("query_block"), 1)
	case isObject(v.peek("query_plan")):
		plan.Format = JSON2
		plan.Root, err = j.operation(v.take("query_plan"), 1)
	case v.peek("operation") != nil && v.peek("operation").kind == 's':
		// The first servers with version 2 (8.3) put the statement into the
		// outermost operation.
		plan.Format = JSON2
		plan.Query, plan.QueryType, plan.Version = v.takeString("query"), v.takeString("query_type"), v.takeString("json_schema_version")
		plan.Root, err = j.operation(v, 1)
		v = &value{}
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if plan.Format == JSON2 && len(v.members) > 0 {
		plan.Query, plan.QueryType, plan.Version = v.takeString("query"), v.takeString("query_type"), v.takeString("json_schema_version")
	}
	plan.Attributes = v.rest("")
	markLimited(plan.Root, false)
	for _, n := range plan.Root.All() {
		if n.Actual != nil || n.NeverExecuted {
			plan.Analyzed = true
		}
	}
	return plan, nil
}

func isObject(v *value) bool { return v != nil && v.kind == '{' }

// A jsonPlanner turns JSON values into nodes.
type jsonPlanner struct {
	*parser
	plan *Plan
}

func (j *jsonPlanner) warn(line int, format string, args ...any) {
	j.plan.Warnings = append(j.plan.Warnings, Warning{line, fmt.Sprintf(format, args...)})
}

// operation reads an operation of version 2.
func (j *jsonPlanner) operation(v *value, depth int) (*Node, error) {
	if err := j.count(v.line, depth); err != nil {
		return nil, err
	}
	n := &Node{Operation: v.takeString("operation"), Heading: v.takeString("heading"), Line: v.line, EndLine: v.endLine}
	if n.Heading != "" {
		n.HeadingLine = v.line
	}
	n.Subquery = selectHeading(n.Heading)
	n.describe()
	if n.Kind == Other {
		n.Kind = accessKind(v)
		if n.Kind == Other {
			j.warn(v.line, "unknown operation: %s", clip(n.Operation, 80))
		}
	}
	j.access(n, v)
	j.figures(n, v)
	for _, name := range []string{"inputs", "inputs_from_select_list"} {
		list := v.peek(name)
		if list == nil || list.kind != '[' {
			continue
		}
		v.take(name)
		for i, item := range list.items {
			if !isObject(item) {
				n.Attributes = append(n.Attributes, Attribute{fmt.Sprintf("%s[%d]", name, i), json.RawMessage(item.raw)})
				j.warn(item.line, "an input is no operation")
				continue
			}
			c, err := j.operation(item, depth+1)
			if err != nil {
				return nil, err
			}
			if name != "inputs" {
				c.SelectList, c.Subquery = true, true
			}
			n.Children = append(n.Children, c)
		}
	}
	n.Attributes = append(n.Attributes, v.rest("")...)
	return n, nil
}

// access prefers the members of an operation to what its text says.
func (j *jsonPlanner) access(n *Node, v *value) {
	n.Schema = v.takeString("schema_name")
	if n.Kind.Reads() || n.Kind == InfoSchema || n.Kind == Modify {
		if name := v.takeString("table_name"); name != "" {
			n.Table, n.TableName = name, name
		}
		if alias := v.takeString("alias"); alias != "" {
			n.Table = alias
		}
	}
	if n.Kind.Reads() {
		if name := v.takeString("index_name"); name != "" {
			n.Index = name
		}
		n.Covering = v.takeBool("covering") || n.Covering
		n.Reverse = v.takeBool("reverse") || n.Reverse
		if s := v.takeString("lookup_condition"); s != "" {
			n.Lookup = s
		}
		if s := v.takeString("pushed_index_condition"); s != "" {
			n.IndexCondition = s
		}
		if list := v.peek("ranges").strings(); list != nil {
			v.take("ranges")
			n.Ranges = strings.Join(list, ", ")
		}
	}
	if n.Kind == Filter {
		if s := v.takeString("condition"); s != "" {
			n.Condition = s
		}
	}
	n.Spatial = n.Spatial || spatialText(n.Ranges) || spatialText(n.IndexCondition)
}

func (j *jsonPlanner) figures(n *Node, v *value) {
	n.EstimatedRows = v.takeNumber("estimated_rows")
	n.EstimatedCost = v.takeNumber("estimated_total_cost")
	n.EstimatedFirstCost = v.takeNumber("estimated_first_row_cost")
	rows := v.peek("actual_rows")
	if rows == nil {
		return
	}
	names := []string{"actual_first_row_ms", "actual_last_row_ms", "actual_rows", "actual_loops"}
	if rows.kind == 0 {
		n.NeverExecuted = true
		for _, name := range names {
			if m := v.peek(name); m != nil && m.kind == 0 {
				v.take(name)
			}
		}
		return
	}
	var f [4]float64
	for i, name := range names {
		m := v.peek(name)
		if m == nil || m.kind != 'n' {
			j.warn(v.line, "figures not read: %s is no number", name)
			return
		}
		var ok bool
		if f[i], ok = number(m.text); !ok {
			j.warn(m.line, "figures not read: %s", clip(m.text, 40))
			return
		}
	}
	for _, name := range names {
		v.take(name)
	}
	n.Actual = &Actual{FirstMS: f[0], LastMS: f[1], Rows: f[2], Loops: f[3]}
}

// accessKind is the kind of an operation of version 2 whose text is not known.
func accessKind(v *value) Kind {
	var access, index string
	if m := v.peek("access_type"); m != nil {
		access = m.text
	}
	if m := v.peek("index_access_type"); m != nil {
		index = m.text
	}
	switch access {
	case "index":
		switch index {
		case "index_scan":
			return IndexScan
		case "index_lookup", "pushed_join_ref":
			return IndexLookup
		case "multi_range_read":
			return MultiLookup
		case "index_range_scan", "dynamic_index_range_scan":
			return IndexRange
		case "index_skip_scan", "group_index_skip_scan":
			return SkipScan
		case "index_distance_scan":
			return DistanceScan
		case "full_text_search":
			return FullText
		}
	case "join":
		if m := v.peek("join_algorithm"); m != nil {
			switch m.text {
			case "nested_loop":
				return NestedLoop
			case "hash":
				return HashJoin
			case "batch_key_access":
				return KeyAccessJoin
			}
		}
	case "table":
		return TableScan
	case "constant_row":
		return ConstantRow
	case "scan_new_records":
		return ScanNewRecords
	case "count_rows":
		return CountRows
	case "filter":
		return Filter
	case "sort":
		return Sort
	case "limit":
		return Limit
	case "aggregate":
		return Aggregate
	case "temp_table_aggregate":
		return TempAggregate
	case "window":
		return Window
	case "materialize":
		return Materialize
	case "append":
		return Append
	case "stream":
		return Stream
	case "weedout", "remove_duplicates_from_groups", "remove_duplicates_on_index":
		return Deduplicate
	case "index_merge", "rowid_intersection", "rowid_union":
		return IndexMerge
	case "rows_fetched_before_execution":
		return Ready
	case "zero_rows", "zero_rows_aggregated":
		return NoRows
	case "insert_values", "replace_values", "delete_rows", "update_rows":
		return Modify
	}
	return Other
}
