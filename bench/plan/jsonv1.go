package plan

import (
	"encoding/json"
	"fmt"
	"strings"
)

// This file reads version 1 of FORMAT=JSON. It describes query blocks and their
// tables, not operations:
//
//	query_block: select_id, cost_info, and one of
//	  ordering_operation | grouping_operation | duplicates_removal | windowing |
//	    buffer_result: flags such as using_filesort, and again one of these
//	  nested_loop: a list of tables in join order
//	  table: one table
//	  union_result: query_specifications, each with a query_block
//	  message: why there is nothing to do
//	and lists of subqueries.

// sources are the members that hold what a block or step takes its rows from.
var sources = map[string]bool{
	"ordering_operation": true, "grouping_operation": true, "duplicates_removal": true, "windowing": true,
	"buffer_result": true, "nested_loop": true, "table": true, "query_block": true, "insert_from": true,
	"union_result": true, "intersect_result": true, "except_result": true, "unary_result": true,
}

// block reads a query_block, or another object with a source, and returns the
// node on top.
func (j *jsonPlanner) block(v *value, depth int) (*Node, error) {
	n, err := j.source(v, depth)
	if err != nil {
		return nil, err
	}
	if n == nil {
		if err := j.count(v.line, depth); err != nil {
			return nil, err
		}
		n = &Node{Operation: v.takeString("message"), Kind: NoRows, Line: v.line, EndLine: v.endLine}
		switch n.Operation {
		case "":
			n.Operation, n.Kind = "Query block", Block
		case "No tables used":
			n.Kind = Ready
		}
		n.Detail = n.Operation
	}
	if cost := v.peek("cost_info"); isObject(cost) && n.EstimatedCost == nil {
		n.EstimatedCost = cost.peekNumber("query_cost")
	}
	if err := j.subqueries(n, v, depth); err != nil {
		return nil, err
	}
	j.leftover(n, v, "")
	return n, nil
}

// leftover keeps the members that were not taken.
func (j *jsonPlanner) leftover(n *Node, v *value, prefix string) {
	n.Attributes = append(n.Attributes, v.rest(prefix)...)
}

// source reads the member of v that holds where its rows come from, or returns
// nil if there is none.
func (j *jsonPlanner) source(v *value, depth int) (*Node, error) {
	if table := v.peek("table"); isObject(table) {
		for _, name := range []string{"insert", "replace"} {
			if m := table.peek(name); m != nil && m.kind == 't' {
				return j.insert(v, name, depth)
			}
		}
	}
	for i := range v.members {
		m := &v.members[i]
		if m.used || !sources[m.name] {
			continue
		}
		switch {
		case m.name == "nested_loop" && m.kind == '[':
			m.used = true
			return j.nestedLoop(m.value, depth)
		case m.kind != '{':
		case m.name == "table":
			m.used = true
			return j.table(m.value, depth)
		case m.name == "query_block" || m.name == "insert_from":
			m.used = true
			return j.block(m.value, depth)
		case strings.HasSuffix(m.name, "_result") && m.name != "buffer_result":
			m.used = true
			return j.setOperation(m.name, m.value, depth)
		default:
			m.used = true
			return j.step(m.name, m.value, depth)
		}
	}
	return nil, nil
}

// step reads a clause: ORDER BY, GROUP BY, DISTINCT, windows, SQL_BUFFER_RESULT.
func (j *jsonPlanner) step(name string, v *value, depth int) (*Node, error) {
	if err := j.count(v.line, depth); err != nil {
		return nil, err
	}
	n := &Node{Line: v.line, EndLine: v.endLine}
	filesort := v.peek("using_filesort") != nil && v.peek("using_filesort").kind == 't'
	temporary := v.peek("using_temporary_table") != nil && v.peek("using_temporary_table").kind == 't'
	sortBelow := false
	switch name {
	case "ordering_operation":
		n.Kind, n.Operation = Sort, "Sort"
	case "grouping_operation":
		n.Kind, n.Operation, sortBelow = Aggregate, "Group aggregate", filesort
		if temporary {
			n.Kind, n.Operation = TempAggregate, "Aggregate using temporary table"
		}
	case "duplicates_removal":
		n.Kind, n.Operation, sortBelow = Deduplicate, "Remove duplicates", filesort
	case "windowing":
		n.Kind, n.Operation, sortBelow = Window, "Window aggregate", filesort
	default:
		n.Kind, n.Operation = Materialize, "Materialize"
	}
	below, err := j.source(v, depth+1)
	if err != nil {
		return nil, err
	}
	nothingDone := !filesort && !temporary && (name == "ordering_operation" || name == "duplicates_removal")
	if nothingDone && below != nil {
		// The rows come in order: no operation is left of the clause.
		n = below
		if err := j.subqueries(n, v, depth); err != nil {
			return nil, err
		}
		j.leftover(n, v, name+".")
		return n, nil
	}
	if below != nil {
		if sortBelow {
			below = &Node{Operation: "Sort", Kind: Sort, Implied: true, Line: v.line, EndLine: v.endLine,
				EstimatedRows: below.EstimatedRows, Children: []*Node{below}}
		}
		n.Children = append(n.Children, below)
		if n.Kind == Sort {
			n.EstimatedRows = below.EstimatedRows
		}
	}
	if err := j.subqueries(n, v, depth); err != nil {
		return nil, err
	}
	j.leftover(n, v, "")
	return n, nil
}

// nestedLoop turns a list of tables into a left-deep tree of joins.
func (j *jsonPlanner) nestedLoop(list *value, depth int) (*Node, error) {
	var top *Node
	for i, item := range list.items {
		if !isObject(item) {
			j.warn(item.line, "an entry of nested_loop is no object")
			if top != nil {
				top.Attributes = append(top.Attributes, Attribute{fmt.Sprintf("nested_loop[%d]", i), json.RawMessage(item.raw)})
				continue
			}
			// Kept on a node of its own, since there is none to hold it.
			top = &Node{Operation: "nested_loop", Kind: Other, Line: item.line, EndLine: item.endLine,
				Attributes: []Attribute{{"nested_loop[0]", json.RawMessage(item.raw)}}}
			continue
		}
		inner := item.peek("table")
		var rows, cost *float64
		if isObject(inner) {
			rows = inner.peekNumber("rows_produced_per_join")
			if info := inner.peek("cost_info"); isObject(info) {
				cost = info.peekNumber("prefix_cost")
			}
		}
		buffer := ""
		if inner != nil && inner.peek("using_join_buffer") != nil {
			buffer = inner.peek("using_join_buffer").text
		}
		// The joins above this table are counted as levels, which bounds them too.
		n, err := j.block(item, depth+len(list.items)-i)
		if err != nil {
			return nil, err
		}
		if top == nil {
			top = n
			if n.EstimatedCost == nil {
				n.EstimatedCost = cost
			}
			continue
		}
		join := &Node{Operation: "Nested loop join", Kind: NestedLoop, JoinType: "inner", Implied: true, Line: list.line, EndLine: list.endLine,
			EstimatedRows: rows, EstimatedCost: cost, Children: []*Node{top, n}}
		switch {
		case strings.Contains(buffer, "hash join"):
			join.Kind, join.Operation = HashJoin, "Hash join"
			n.Heading = "Hash"
		case strings.Contains(buffer, "Batched Key Access"):
			join.Kind, join.Operation = KeyAccessJoin, "Batched key access join"
		}
		if err := j.count(list.line, depth); err != nil {
			return nil, err
		}
		top = join
	}
	return top, nil
}

// accessTypes maps the access types of version 1 to kinds and to the words
// that TREE uses.
var accessTypes = map[string]struct {
	kind Kind
	text string
}{
	"ALL":             {TableScan, "Table scan"},
	"index":           {IndexScan, "Index scan"},
	"range":           {IndexRange, "Index range scan"},
	"ref":             {IndexLookup, "Index lookup"},
	"ref_or_null":     {IndexLookup, "Index lookup"},
	"index_subquery":  {IndexLookup, "Index lookup"},
	"eq_ref":          {SingleLookup, "Single-row index lookup"},
	"unique_subquery": {SingleLookup, "Single-row index lookup"},
	"const":           {ConstantRow, "Constant row"},
	"system":          {ConstantRow, "Constant row"},
	"fulltext":        {FullText, "Full-text index search"},
	"index_merge":     {IndexMerge, "Index merge"},
}

// table reads a table, and adds a filter above it for its condition.
func (j *jsonPlanner) table(v *value, depth int) (*Node, error) {
	if err := j.count(v.line, depth); err != nil {
		return nil, err
	}
	n := &Node{Kind: Other, Line: v.line, EndLine: v.endLine}
	n.Table = v.takeString("table_name")
	n.Index = v.takeString("key")
	text := "Table"
	if access := v.peek("access_type"); access != nil {
		if a, known := accessTypes[access.text]; known {
			n.Kind, text = a.kind, a.text
			v.take("access_type")
		}
	}
	has := func(name string) bool { return v.peek(name) != nil && v.peek(name).kind != 'f' }
	switch {
	case has("using_index_for_skip_scan"):
		n.Kind, text = SkipScan, "Index skip scan"
	case has("using_index_for_group_by"):
		n.Kind, text = SkipScan, "Index skip scan for grouping"
	case has("recursive"):
		n.Kind, text = ScanNewRecords, "Scan new records"
	case has("table_function"):
		n.Kind, text = TableFunction, "Table function"
	case n.Kind == IndexLookup && has("using_MRR"):
		n.Kind, text = MultiLookup, "Multi-range index lookup"
	case n.Kind == IndexLookup && has("using_join_buffer") && strings.Contains(v.peek("using_join_buffer").text, "Key Access"):
		n.Kind, text = MultiLookup, "Multi-range index lookup"
	}
	n.Covering = v.takeBool("using_index")
	n.Reverse = v.takeBool("backward_index_scan")
	if list := v.peek("possible_keys").strings(); list != nil {
		v.take("possible_keys")
		n.PossibleIndexes = list
	}
	if list := v.peek("ref").strings(); list != nil {
		v.take("ref")
		n.Lookup = strings.Join(list, ", ")
	}
	if n.Covering && n.Kind != ConstantRow {
		text = "Covering " + strings.ToLower(text[:1]) + text[1:]
		for _, prefix := range []string{"Single-row ", "Multi-range ", "Full-text "} {
			if rest, found := strings.CutPrefix(text, "Covering "+strings.ToLower(prefix)); found {
				text = prefix + "covering " + rest
			}
		}
	}
	n.Operation = text + " on " + n.Table
	if n.Index != "" {
		n.Operation += " using " + n.Index
	}
	if n.Lookup != "" {
		n.Operation += " (" + n.Lookup + ")"
	}
	n.IndexCondition = v.takeString("index_condition")
	if n.Kind == Other {
		n.Operation = strings.TrimSuffix(strings.TrimSuffix(n.Operation, n.Table), " on ") + " " + n.Table
		if message := v.takeString("message"); message != "" {
			n.Operation, n.Kind, n.Detail = message, NoRows, message
		} else {
			j.warn(v.line, "unknown access type of table %s", clip(n.Table, 40))
		}
	}
	n.EstimatedRows = v.takeNumber("rows_examined_per_scan")
	n.Filtered = v.takeNumber("filtered")
	produced := v.peekNumber("rows_produced_per_join")
	if cost := v.peek("cost_info"); isObject(cost) {
		read, eval := cost.peekNumber("read_cost"), cost.peekNumber("eval_cost")
		if read != nil && eval != nil {
			total := finite(*read + *eval)
			n.EstimatedCost = &total
		}
	}
	if m := v.peek("materialized_from_subquery"); isObject(m) {
		v.take("materialized_from_subquery")
		below, err := j.block(m, depth+2)
		if err != nil {
			return nil, err
		}
		if below.Kind != Union && below.Kind != Except && below.Kind != Intersect {
			below = &Node{Operation: "Materialize", Kind: Materialize, Implied: true, Line: m.line, EndLine: m.endLine, Children: []*Node{below}}
		}
		n.Children = append(n.Children, below)
	}
	top := n
	if condition := v.takeString("attached_condition"); condition != "" {
		n.Spatial = n.Kind == IndexRange && n.IndexCondition == "" && spatialText(condition)
		top = &Node{Operation: "Filter: " + condition, Kind: Filter, Condition: condition, Implied: true,
			Line: v.line, EndLine: v.endLine, EstimatedCost: n.EstimatedCost, Children: []*Node{n}}
		if n.EstimatedRows != nil && n.Filtered != nil {
			rows := finite(*n.EstimatedRows * *n.Filtered / 100)
			top.EstimatedRows = &rows
		} else {
			top.EstimatedRows = produced
		}
	}
	if err := j.subqueries(top, v, depth); err != nil {
		return nil, err
	}
	for _, name := range []string{"update", "delete"} {
		if m := v.peek(name); m != nil && m.kind == 't' {
			v.take(name)
			verb := map[string]string{"update": "Update ", "delete": "Delete from "}[name]
			top = &Node{Operation: verb + n.Table, Kind: Modify, Table: n.Table, Implied: true, Line: v.line, EndLine: v.endLine, Children: []*Node{top}}
		}
	}
	j.leftover(n, v, "")
	return top, nil
}

// insert reads the target of an INSERT or REPLACE, beside which stands where
// its rows come from.
func (j *jsonPlanner) insert(v *value, name string, depth int) (*Node, error) {
	target := v.take("table")
	if err := j.count(target.line, depth); err != nil {
		return nil, err
	}
	target.take(name)
	n := &Node{Kind: Modify, Table: target.takeString("table_name"), Line: target.line, EndLine: target.endLine}
	n.Operation = map[string]string{"insert": "Insert into ", "replace": "Replace into "}[name] + n.Table
	j.leftover(n, target, "")
	below, err := j.source(v, depth+1)
	if err != nil {
		return nil, err
	}
	if below != nil {
		n.Children = append(n.Children, below)
	}
	return n, nil
}

// setOperation reads a union_result and its like.
func (j *jsonPlanner) setOperation(name string, v *value, depth int) (*Node, error) {
	if err := j.count(v.line, depth); err != nil {
		return nil, err
	}
	n := &Node{Kind: Union, Operation: "Union materialize", Table: v.takeString("table_name"), Line: v.line, EndLine: v.endLine}
	switch name {
	case "intersect_result":
		n.Kind, n.Operation = Intersect, "Intersect materialize"
	case "except_result":
		n.Kind, n.Operation = Except, "Except materialize"
	default:
		if m := v.peek("using_temporary_table"); m != nil && m.kind == 'f' {
			n.Kind, n.Operation = Append, "Append"
		}
	}
	if list := v.peek("query_specifications"); list != nil && list.kind == '[' {
		v.take("query_specifications")
		for i, item := range list.items {
			if !isObject(item) {
				n.Attributes = append(n.Attributes, Attribute{fmt.Sprintf("query_specifications[%d]", i), json.RawMessage(item.raw)})
				continue
			}
			c, err := j.block(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.Children = append(n.Children, c)
		}
	}
	if err := j.subqueries(n, v, depth); err != nil {
		return nil, err
	}
	j.leftover(n, v, "")
	return n, nil
}

// subqueries reads the lists of subqueries of v, which become children of n, and
// any member that is not known but holds a plan.
func (j *jsonPlanner) subqueries(n *Node, v *value, depth int) error {
	for i := range v.members {
		m := &v.members[i]
		if m.used {
			continue
		}
		var items []*value
		switch {
		case m.kind == '[':
			items = m.items
		case m.kind == '{':
			items = []*value{m.value}
		}
		plans := 0
		for _, item := range items {
			if holdsPlan(item) {
				plans++
			}
		}
		if plans == 0 || plans < len(items) {
			continue // stays an attribute
		}
		m.used = true
		heading := strings.ReplaceAll(m.name, "_", " ")
		for _, item := range items {
			c, err := j.block(item, depth+1)
			if err != nil {
				return err
			}
			c.Heading, c.HeadingLine = heading, item.line
			c.Subquery = strings.Contains(m.name, "subquer")
			c.SelectList = m.name == "select_list_subqueries"
			n.Children = append(n.Children, c)
		}
	}
	return nil
}

func holdsPlan(v *value) bool {
	if !isObject(v) {
		return false
	}
	for _, m := range v.members {
		if sources[m.name] && (m.kind == '{' || m.kind == '[') {
			return true
		}
	}
	return false
}
