package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nearjob/nearjob/bench/plan"
	"github.com/nearjob/nearjob/bench/report/digest"
	"github.com/nearjob/nearjob/bench/result"
)

// gains says what an index, a forced index and a setting gain.
func (j *judge) gains(sets []SetVerdict, largest [][]*group) {
	for i, s := range sets {
		if s.Use != "" {
			j.overFullScan(s, largest[i])
		}
	}
	j.forcing()
	j.covering()
	j.findings()
}

// overFullScan says what the chosen strategy gains over reading everything.
func (j *judge) overFullScan(s SetVerdict, top []*group) {
	type gain struct {
		g     *group
		ratio float64
	}
	var gains []gain
	for _, g := range top {
		scan, own := g.of(full), g.of(s.Use)
		if scan == nil || own == nil {
			continue
		}
		gains = append(gains, gain{g, scan.Free.Time.Median / own.Free.Time.Median})
		switch digest.Compare(scan.Free.Time, own.Free.Time) {
		case 0:
			j.say(Caution, keysOf([]*group{g}, full, s.Use), "%s, %s: reading all rows is as fast as %s within the noise (%s and %s), so that at this size no index pays. It will not stay so: a full scan grows with the table.",
				s.Set, g.where(), s.Use, plan.Milliseconds(scan.Free.Time.Median), plan.Milliseconds(own.Free.Time.Median))
		case -1:
			j.say(Caution, keysOf([]*group{g}, full, s.Use), "%s, %s: reading all rows is faster than %s (%s against %s): the circle holds most of the table, or the table is small. A full scan grows with the table, so measure with more rows before relying on it.",
				s.Set, g.where(), s.Use, plan.Milliseconds(scan.Free.Time.Median), plan.Milliseconds(own.Free.Time.Median))
		}
	}
	if len(gains) == 0 {
		j.say(Caution, s.Evidence, "%s: there is no time of a full scan, so what an index gains over none cannot be said.", s.Set)
		return
	}
	lo := slices.MinFunc(gains, func(a, b gain) int { return cmp.Compare(a.ratio, b.ratio) })
	hi := slices.MaxFunc(gains, func(a, b gain) int { return cmp.Compare(a.ratio, b.ratio) })
	if hi.ratio < minGain || digest.Compare(hi.g.of(full).Free.Time, hi.g.of(s.Use).Free.Time) <= 0 {
		return
	}
	if len(gains) == 1 || plan.Figure(lo.ratio) == plan.Figure(hi.ratio) {
		j.say(Gain, keysOf(top, full, s.Use), "%s: %s is %s times as fast as a full scan at %s.", s.Set, s.Use, plan.Figure(hi.ratio), hi.g.where())
		return
	}
	j.say(Gain, keysOf(top, full, s.Use), "%s: at %s rows %s is %s (%s) to %s (%s) times as fast as a full scan.", s.Set, digest.Count(hi.g.rows), s.Use,
		plan.Figure(lo.ratio), digest.Radius(lo.g.radius), plan.Figure(hi.ratio), digest.Radius(hi.g.radius))
}

// forcing says where naming the index gains or loses against the optimizer's own
// choice, beyond the noise and by another plan: the largest of each strategy.
func (j *judge) forcing() {
	type seen struct {
		c     *result.Case
		ratio float64
		count int
	}
	better, worse := map[string]*seen{}, map[string]*seen{}
	compared, most := 0, 0.0
	var order, all, drift []string
	note := func(m map[string]*seen, c *result.Case, ratio float64) {
		s := m[c.Strategy]
		if s == nil {
			s = &seen{}
			m[c.Strategy] = s
		}
		s.count++
		if ratio > s.ratio {
			s.c, s.ratio = c, ratio
		}
	}
	for _, g := range j.groups {
		for _, c := range g.cases {
			if c.Forced == nil || !timed(c.Forced.Time) {
				continue
			}
			compared++
			all = append(all, c.Key())
			if !slices.Contains(order, c.Strategy) {
				order = append(order, c.Strategy)
			}
			ratio := c.Free.Time.Median / c.Forced.Time.Median
			way := digest.Compare(c.Free.Time, c.Forced.Time)
			switch {
			case way == 0 || max(ratio, 1/ratio) < minGain:
			case digest.SamePlan(c):
				// What differs is the machine, not the index.
				drift = append(drift, c.Key())
				most = max(most, ratio, 1/ratio)
			case way > 0:
				note(better, c, ratio)
			default:
				note(worse, c, 1/ratio)
			}
		}
	}
	if len(drift) > 0 {
		j.say(Caution, drift, "In %s the optimizer's own plan and the one with the index forced are the same, and yet their times differ beyond their spread, by up to %s times: differences of that order between strategies can be noise as well.",
			many(len(drift), "search", "searches"), plan.Figure(most))
	}
	if compared == 0 {
		if len(j.groups) > 0 {
			j.say(Caution, nil, "No search ran with its index forced, so whether the optimizer chooses well cannot be said.")
		}
		return
	}
	slices.SortFunc(order, simpler)
	if len(better) == 0 {
		j.say(Gain, all, "Naming the index (FORCE INDEX) gains nothing in any of %s: leave the choice to the optimizer.", many(compared, "search", "searches"))
	}
	for _, name := range order {
		if s := better[name]; s != nil {
			where := ""
			if s.count > 1 {
				where = fmt.Sprintf(", the most of %d searches where it gains", s.count)
			}
			if rows := digest.Rows(&result.Run{Cases: []result.Case{*s.c}}); rows[0].Ignored {
				where += "; left free, the optimizer ignores the index"
			} else {
				where += "; left free, the optimizer uses an index in another way: compare both plans"
			}
			j.say(Gain, []string{s.c.Key()}, "FORCE INDEX gains %s times for %s (%s against %s in %s at %s rows and %s%s).", plan.Figure(s.ratio), name,
				plan.Milliseconds(s.c.Forced.Time.Median), plan.Milliseconds(s.c.Free.Time.Median), s.c.Set, digest.Count(s.c.Rows), digest.Radius(s.c.RadiusM), where)
		}
		if s := worse[name]; s != nil {
			j.say(Change, []string{s.c.Key()}, "FORCE INDEX costs up to %s times for %s (%s against %s in %s at %s rows and %s): do not force it everywhere.", plan.Figure(s.ratio), name,
				plan.Milliseconds(s.c.Forced.Time.Median), plan.Milliseconds(s.c.Free.Time.Median), s.c.Set, digest.Count(s.c.Rows), digest.Radius(s.c.RadiusM))
		}
	}
}

// covering says what a covering index gains, where an experiment has drawn both:
// two lines whose names differ in being covering, over an axis of time.
func (j *judge) covering() {
	for _, e := range j.run.Experiments {
		for _, c := range e.Charts {
			if !strings.Contains(c.Y.Label, "ms") {
				continue
			}
			for _, with := range c.Series {
				bare, ok := bareName(with.Name, true)
				if !ok {
					continue
				}
				for _, without := range c.Series {
					if other, ok := bareName(without.Name, false); !ok || other != bare {
						continue
					}
					x, fast, slow, ok := lastShared(with, without)
					if !ok {
						continue
					}
					ratio := slow.Y / fast.Y
					rangesOverlap := fast.Hi > 0 && slow.Lo > 0 && fast.Hi >= slow.Lo
					if ratio < minGain || rangesOverlap {
						j.say(Gain, []string{"experiment/" + e.Name}, "A covering index gains nothing beyond the noise in the experiment %s (%s against %s where %q is %s).",
							e.Name, plan.Milliseconds(fast.Y), plan.Milliseconds(slow.Y), c.X.Label, plan.Figure(x))
						continue
					}
					j.say(Gain, []string{"experiment/" + e.Name}, "A covering index gains %s times (%s against %s, where %q is %s, its largest in the experiment %s).",
						plan.Figure(ratio), plan.Milliseconds(fast.Y), plan.Milliseconds(slow.Y), c.X.Label, plan.Figure(x), e.Name)
				}
			}
		}
	}
}

// bareName takes the word for covering, or for not covering, out of a line's name.
func bareName(name string, covering bool) (string, bool) {
	name = strings.ToLower(name)
	for _, word := range []string{"not covering", "non-covering", "uncovered"} {
		if strings.Contains(name, word) {
			return strings.Join(strings.Fields(strings.Replace(name, word, "", 1)), " "), !covering
		}
	}
	for _, word := range []string{"covering", "covered"} {
		if strings.Contains(name, word) {
			return strings.Join(strings.Fields(strings.Replace(name, word, "", 1)), " "), covering
		}
	}
	return "", false
}

// lastShared returns the points of two lines at the largest X that both have.
func lastShared(a, b result.Series) (x float64, pa, pb result.Point, ok bool) {
	for _, p := range a.Points {
		for _, q := range b.Points {
			if p.X == q.X && p.Y > 0 && q.Y > 0 && (!ok || p.X > x) {
				x, pa, pb, ok = p.X, p, q, true
			}
		}
	}
	return x, pa, pb, ok
}

// findings counts how published claims fared, as they bear on what others advise.
func (j *judge) findings() {
	count := map[result.Outcome]int{}
	total := 0
	var evidence []string
	for _, e := range j.run.Experiments {
		if len(e.Findings) > 0 {
			evidence = append(evidence, "experiment/"+e.Name)
		}
		for _, f := range e.Findings {
			count[f.Verdict]++
			total++
		}
	}
	if total == 0 {
		return
	}
	var parts []string
	for _, o := range []result.Outcome{result.Confirmed, result.Differs, result.Refuted, result.Unclear} {
		if count[o] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[o], o))
		}
	}
	text := fmt.Sprintf("Of %s measured again here: %s", many(total, "published claim", "published claims"), list(parts))
	if count[result.Confirmed] < total {
		text += ": what was published on other data and versions does not simply carry over to yours"
	}
	j.say(Change, evidence, "%s.", text)
}

// changes says what would change the verdict.
func (j *judge) changes(sets []SetVerdict) {
	for _, s := range sets {
		if s.Use == "" {
			continue
		}
		groups := j.ofSet(s.Set)
		j.overtaken(s, groups)
		j.trend(s, groups)
	}
	// Sets that want different strategies.
	var uses []string
	for _, s := range sets {
		if s.Use != "" && !slices.Contains(uses, s.Use) {
			uses = append(uses, s.Use)
		}
	}
	if len(uses) > 1 {
		var each, evidence []string
		for _, s := range sets {
			if s.Use != "" {
				each = append(each, fmt.Sprintf("%s has %s first", s.Set, s.Use))
				evidence = append(evidence, s.Evidence...)
			}
		}
		j.say(Change, evidence, "The shape of the data decides: %s. Take the set that is most like yours.", list(each))
	}
	if len(j.groups) > 0 {
		if j.run.Settings.Warm {
			j.say(Change, nil, "All times are warm: the pages were in the buffer pool. With a table larger than innodb_buffer_pool_size, strategies that read fewer rows gain more than is seen here.")
		} else {
			j.say(Change, nil, "Times are not all warm: some include reading pages from the disk. On a server whose buffer pool holds the table, the strategies are closer together.")
		}
	}
}

// overtaken names the sizes and radii at which another strategy is faster than
// the chosen one, by enough to matter.
func (j *judge) overtaken(s SetVerdict, groups []*group) {
	type loss struct {
		g     *group
		by    string
		ratio float64
	}
	var losses []loss
	for _, g := range groups {
		own, best := g.of(s.Use), g.best()
		if own == nil || best == own || digest.Compare(own.Free.Time, best.Free.Time) <= 0 {
			continue
		}
		if ratio := own.Free.Time.Median / best.Free.Time.Median; ratio >= minGain {
			losses = append(losses, loss{g, best.Strategy, ratio})
		}
	}
	var names []string
	for _, l := range losses {
		if !slices.Contains(names, l.by) {
			names = append(names, l.by)
		}
	}
	for _, name := range names {
		var at []string
		var evidence []string
		most := loss{}
		for _, l := range losses {
			if l.by != name {
				continue
			}
			at = append(at, l.g.where())
			evidence = append(evidence, keysOf([]*group{l.g}, s.Use, name)...)
			if l.ratio > most.ratio {
				most = l
			}
		}
		text := fmt.Sprintf("%s: %s is faster than %s at %s, by %s times", s.Set, name, s.Use, at[0], plan.Figure(most.ratio))
		if len(at) > 1 {
			text = fmt.Sprintf("%s: %s is faster than %s at %s, by up to %s times (at %s)", s.Set, name, s.Use, list(at), plan.Figure(most.ratio), most.g.where())
		}
		j.say(Change, evidence, "%s. If your searches are mostly like that, use %s.", text, name)
	}
}

// trend names strategies that are behind the chosen one and come closer as the
// table grows.
func (j *judge) trend(s SetVerdict, groups []*group) {
	if len(groups) == 0 {
		return
	}
	radius := groups[len(groups)-1].radius
	var first, last *group
	for _, g := range groups {
		if g.radius != radius {
			continue
		}
		if first == nil {
			first = g
		}
		last = g
	}
	if first == last {
		return
	}
	var gaining, names []string
	for _, c := range last.cases {
		if c.Strategy == s.Use || c.Strategy == full {
			continue
		}
		early, ownEarly, own := first.of(c.Strategy), first.of(s.Use), last.of(s.Use)
		if early == nil || ownEarly == nil || own == nil {
			continue
		}
		before := early.Free.Time.Median / ownEarly.Free.Time.Median
		after := c.Free.Time.Median / own.Free.Time.Median
		// Only one that is near enough to overtake, and still behind.
		if before/after < minGain || after > Factor || before <= 1 || digest.Compare(c.Free.Time, own.Free.Time) < 0 {
			continue
		}
		names = append(names, c.Strategy)
		gaining = append(gaining, fmt.Sprintf("%s (from %s times its time to %s)", c.Strategy, plan.Figure(before), plan.Figure(after)))
	}
	if len(gaining) == 0 {
		return
	}
	j.say(Change, keysOf([]*group{first, last}, append([]string{s.Use}, names...)...), "%s: as the table grows from %s to %s rows, %s loses some of its lead at %s over %s. With more rows one of them may overtake it: measure there.",
		s.Set, digest.Count(first.rows), digest.Count(last.rows), s.Use, digest.Radius(radius), list(gaining))
}

// cautions says what cannot be said, and why.
func (j *judge) cautions(sets []SetVerdict, largest [][]*group) {
	if j.run.Quick {
		j.say(Caution, nil, "This was a quick run, with fewer sizes and repeats: a first look, no ground for a decision.")
	}
	for i, s := range sets {
		j.setCautions(s.Set, largest[i])
	}
	var few, loud []string
	fewest := 0
	for _, g := range j.groups {
		for _, c := range g.cases {
			t := c.Free.Time
			if t.Runs < fewRuns {
				if len(few) == 0 || t.Runs < fewest {
					fewest = t.Runs
				}
				few = append(few, c.Key())
			}
			if t.Spread > noisy {
				loud = append(loud, c.Key())
			}
		}
	}
	if len(few) > 0 {
		j.say(Caution, few, "%s timed fewer than %d times (at least one only %d): their spread says little, so that small differences may be noise.", many(len(few), "search was", "searches were"), fewRuns, fewest)
	}
	if len(loud) > 0 {
		j.say(Caution, loud, "%s noisy: half of the runs are more than %d %% away from the median. Differences there need more repeats, on a quieter machine.", many(len(loud), "search was", "searches were"), int(noisy*100))
	}
	if t := j.run.Table; t != nil && t.Sampled {
		j.say(Caution, []string{"table"}, "Only %s of the %s rows of %s were copied: a larger table is slower, and the strategies are further apart.", digest.Count(t.Copied), digest.Count(t.Rows), t.Name)
	}
	if t := j.run.Table; t != nil && len(t.Advice) == 0 {
		j.say(Caution, []string{"table"}, "There is no advice for the table %s: see its problems.", t.Name)
	}
	if j.run.Settings.Container {
		j.say(Caution, nil, "The server ran in a container on the machine of the laboratory, with its own settings: take the ratios, not the times, to your server.")
	}
	if n := len(j.run.Warnings); n > 0 {
		j.say(Caution, nil, "The run has %s of its own, which %s to be read with the figures.", many(n, "warning", "warnings"), map[bool]string{true: "is", false: "are"}[n == 1])
	}
}

func (j *judge) setCautions(set string, top []*group) {
	groups := j.ofSet(set)
	sizes, radii := map[int]bool{}, map[float64]bool{}
	for _, g := range groups {
		sizes[g.rows], radii[g.radius] = true, true
	}
	if len(sizes) == 1 {
		j.say(Caution, keys(top), "%s was measured at one size only (%s rows): how times grow with the table cannot be said.", set, digest.Count(groups[0].rows))
	}
	if len(radii) == 1 {
		j.say(Caution, keys(top), "%s was measured at one radius only (%s): other radii can have another best strategy.", set, digest.Radius(groups[0].radius))
	}
	// Strategies that are missing everywhere, or in some groups.
	var all []string
	for _, g := range groups {
		for _, c := range g.cases {
			if !slices.Contains(all, c.Strategy) {
				all = append(all, c.Strategy)
			}
		}
	}
	var missing []string
	for _, name := range known {
		if !slices.Contains(all, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		j.say(Caution, nil, "%s: not measured: %s. One of them may be better.", set, list(missing))
	}
	for _, name := range all {
		lacks := 0
		for _, g := range groups {
			if g.of(name) == nil {
				lacks++
			}
		}
		if lacks > 0 {
			j.say(Caution, keysOf(groups, name), "%s: %s lacks %d of %s. Where that is at the largest size, it is not among those to choose from.", set, name, lacks, many(len(groups), "search", "searches"))
		}
	}
	var empty []string
	var where []string
	for _, g := range groups {
		if slices.ContainsFunc(g.cases, func(c *result.Case) bool { return c.Within > 0 }) {
			continue
		}
		empty = append(empty, keys([]*group{g})...)
		where = append(where, g.where())
	}
	if len(empty) > 0 {
		j.say(Caution, empty, "%s: no job lies within the circle at %s, so that these are times of finding nothing.", set, list(where))
	}
}
