package plan

// Costs of an edit. Taking a node away and adding another one costs 2*edit, so
// nodes that cost more to match are never partners.
const (
	edit  = 10
	never = 2*edit + 1
)

// matchCost says how unlike two nodes are.
func matchCost(a, b *Node) int {
	cost := 0
	switch {
	case a.Kind == b.Kind:
		if a.Table != b.Table {
			cost = 12
		}
	case a.Kind.Reads() && b.Kind.Reads():
		cost = 5
		if a.Table != b.Table {
			cost = 16
		}
	case a.Kind.Joins() && b.Kind.Joins():
		cost = 6
	case family(a.Kind) != 0 && family(a.Kind) == family(b.Kind):
		cost = 6
	default:
		return never
	}
	if a.Index != b.Index {
		cost++
	}
	if a.Condition != b.Condition || a.Lookup != b.Lookup || a.Detail != b.Detail {
		cost++
	}
	if a.Subquery != b.Subquery {
		cost += 4
	}
	return cost
}

// family groups kinds of which one can take the place of the other.
func family(k Kind) int {
	switch k {
	case Aggregate, TempAggregate:
		return 1
	case Materialize, Union, Except, Intersect, Append:
		return 2
	case Ready, NoRows, ConstantRow:
		return 3
	}
	return 0
}

// Bounds of an exact alignment: about 20 MB and half a second.
const (
	maxCells = 2_000_000
	maxWork  = 100_000_000
)

// An orderedTree is a tree as the algorithm of Zhang and Shasha (1989, "Simple
// fast algorithms for the editing distance between trees") takes it: the nodes
// in postorder, for each the index of its leftmost leaf, and the roots of the
// subtrees that are compared.
type orderedTree struct {
	nodes    []*Node
	left     []int
	keyRoots []int
}

func newOrderedTree(root *Node) *orderedTree {
	t := &orderedTree{}
	if root != nil {
		t.add(root)
	}
	// A key root is the last node that has its leftmost leaf.
	last := make(map[int]int)
	for i, l := range t.left {
		last[l] = i
	}
	for i, l := range t.left {
		if last[l] == i {
			t.keyRoots = append(t.keyRoots, i)
		}
	}
	return t
}

func (t *orderedTree) add(n *Node) (leftmost int) {
	leftmost = -1
	for _, c := range n.Children {
		if l := t.add(c); leftmost < 0 {
			leftmost = l
		}
	}
	if leftmost < 0 {
		leftmost = len(t.nodes)
	}
	t.nodes = append(t.nodes, n)
	t.left = append(t.left, leftmost)
	return leftmost
}

// work is the sum of the sizes of the subtrees that are compared.
func (t *orderedTree) work() int {
	sum := 0
	for _, k := range t.keyRoots {
		sum += k - t.left[k] + 1
	}
	return sum
}

// align maps nodes below a to their partners below b. The mapping keeps
// ancestors and the order of siblings.
func align(a, b *Node) (partners map[*Node]*Node, exact bool) {
	ta, tb := newOrderedTree(a), newOrderedTree(b)
	partners = make(map[*Node]*Node)
	n, m := len(ta.nodes), len(tb.nodes)
	if n == 0 || m == 0 {
		return partners, true
	}
	if (n+1)*(m+1) > maxCells || ta.work()*tb.work() > maxWork {
		alignByPosition(a, b, partners)
		return partners, false
	}
	x := &aligner{a: ta, b: tb, width: m + 1, tree: make([]int, n*m), forest: make([]int, (n+1)*(m+1))}
	for _, i := range ta.keyRoots {
		for _, j := range tb.keyRoots {
			x.fill(i, j)
		}
	}
	x.trace(n-1, m-1, partners)
	return partners, true
}

type aligner struct {
	a, b   *orderedTree
	width  int
	tree   []int // distance of the subtrees at i and j, at i*len(b)+j
	forest []int // distance of the forests of one fill, from an empty one
}

// fill computes the distances of all forests in the subtrees at i and j.
func (x *aligner) fill(i, j int) {
	li, lj, m := x.a.left[i], x.b.left[j], len(x.b.nodes)
	f := func(r, c int) *int { return &x.forest[r*x.width+c] }
	*f(0, 0) = 0
	for r := li; r <= i; r++ {
		*f(r-li+1, 0) = (r - li + 1) * edit
	}
	for c := lj; c <= j; c++ {
		*f(0, c-lj+1) = (c - lj + 1) * edit
	}
	for r := li; r <= i; r++ {
		for c := lj; c <= j; c++ {
			best := min(*f(r-li, c-lj+1), *f(r-li+1, c-lj)) + edit
			if x.a.left[r] == li && x.b.left[c] == lj {
				best = min(best, *f(r-li, c-lj)+matchCost(x.a.nodes[r], x.b.nodes[c]))
				x.tree[r*m+c] = best
			} else {
				best = min(best, *f(x.a.left[r]-li, x.b.left[c]-lj)+x.tree[r*m+c])
			}
			*f(r-li+1, c-lj+1) = best
		}
	}
}

// trace reads the partners of the subtrees at i and j from the distances, and
// goes on with the subtrees that were compared on their own.
func (x *aligner) trace(i, j int, partners map[*Node]*Node) {
	m := len(x.b.nodes)
	todo := [][2]int{{i, j}}
	for len(todo) > 0 {
		i, j := todo[len(todo)-1][0], todo[len(todo)-1][1]
		todo = todo[:len(todo)-1]
		x.fill(i, j)
		li, lj := x.a.left[i], x.b.left[j]
		f := func(r, c int) int { return x.forest[(r-li+1)*x.width+c-lj+1] }
		r, c := i, j
		for r >= li && c >= lj {
			whole := x.a.left[r] == li && x.b.left[c] == lj
			switch {
			case whole && f(r, c) == f(r-1, c-1)+matchCost(x.a.nodes[r], x.b.nodes[c]):
				partners[x.a.nodes[r]] = x.b.nodes[c]
				r--
				c--
			case !whole && f(r, c) == f(x.a.left[r]-1, x.b.left[c]-1)+x.tree[r*m+c]:
				todo = append(todo, [2]int{r, c})
				r, c = x.a.left[r]-1, x.b.left[c]-1
			case f(r, c) == f(r-1, c)+edit:
				r--
			default:
				c--
			}
		}
	}
}

// alignByPosition pairs nodes that stand at the same place below partners.
func alignByPosition(a, b *Node, partners map[*Node]*Node) {
	if matchCost(a, b) >= never {
		return
	}
	partners[a] = b
	for i := range min(len(a.Children), len(b.Children)) {
		alignByPosition(a.Children[i], b.Children[i], partners)
	}
}
