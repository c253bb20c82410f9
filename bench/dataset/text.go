package dataset

import (
	"strings"
	"time"

	"github.com/nearjob/nearjob/store"
)

// category is a kind of job, with what such jobs are called and pay.
type category struct {
	name   string
	weight int64
	tasks  []string
	per    string
	lo, hi int64 // US dollars
}

var categories = []category{
	{"cleaning", 18, []string{"Clean a two-room flat", "Clean windows", "Move-out cleaning", "Clean a shop after hours", "Deep-clean a kitchen"}, "hour", 12, 28},
	{"delivery", 15, []string{"Deliver parcels", "Deliver groceries", "Take documents across town", "Deliver flowers", "Evening food delivery"}, "job", 6, 40},
	{"moving", 10, []string{"Help carry furniture", "Move a piano", "Load a van", "Move a small office", "Carry boxes up four floors"}, "job", 40, 400},
	{"repair", 9, []string{"Fix a dripping tap", "Mount a television", "Repair a bicycle", "Replace a door lock", "Hang shelves"}, "job", 20, 180},
	{"gardening", 8, []string{"Mow a lawn", "Trim a hedge", "Rake leaves", "Plant a vegetable bed", "Water plants for two weeks"}, "hour", 11, 30},
	{"petcare", 8, []string{"Walk a dog", "Feed two cats", "Look after a rabbit", "Take a dog to the vet", "Bathe a large dog"}, "hour", 10, 25},
	{"tutoring", 7, []string{"Tutor in mathematics", "English conversation", "Piano lesson for a beginner", "Help with chemistry homework", "Teach a senior to use a phone"}, "hour", 15, 60},
	{"childcare", 7, []string{"Babysit for an evening", "Pick up from kindergarten", "Look after twins", "Holiday childcare"}, "hour", 11, 27},
	{"events", 6, []string{"Serve at a wedding", "Hand out flyers", "Set up chairs", "Check tickets at a concert", "Guide visitors at a fair"}, "hour", 11, 24},
	{"kitchen", 6, []string{"Kitchen help", "Wash dishes", "Bake for a birthday", "Prepare lunch boxes", "Barista for a weekend"}, "day", 70, 190},
	{"assembly", 4, []string{"Assemble a wardrobe", "Assemble desks", "Put up a trampoline", "Build a garden shed"}, "job", 25, 250},
	{"computer", 2, []string{"Set up a printer", "Rescue data from a laptop", "Make a small website", "Install home Wi-Fi"}, "job", 30, 500},
}

var (
	titleEnds   = []string{"", "", "", ", today", ", this weekend", ", regular", ", urgent", ", two people", ", own tools needed"}
	employerOne = []string{"Acorn", "Bluebell", "Cedar", "Daybreak", "Evergreen", "Foxglove", "Granite", "Harbour", "Ivory", "Juniper", "Kestrel", "Lantern", "Maple", "Northside", "Orchard", "Pebble", "Quill", "Riverside", "Saffron", "Thistle"}
	employerTwo = []string{"Services", "Homes", "Works", "Logistics", "Market", "Studio", "Kitchen", "Partners", "Care", "Gardens", "School", "Hotel", "Clinic", "Foods", "Events", "Supplies", "Repairs", "Office", "Trading", "Collective"}
	sentences   = []string{"Please bring your own gloves.", "The place is on the third floor without a lift.", "Times can be agreed.", "References are welcome.", "Parking is in front of the house.", "We pay on the same day.", "Two hours should be enough.", "No experience needed.", "A friendly team awaits you."}
)

// currencies says how many hundredths of the unit a US dollar is worth here,
// and to what amounts are rounded: pay is never 13,417 won.
var currencies = map[string]struct{ rate, step int64 }{
	"USD": {100, 50},
	"EUR": {90, 50},
	"KRW": {120_000, 50_000},
}

// writer makes up what a job says.
type writer struct {
	currency             string
	categories, employer weights
}

func newWriter(currency string) *writer {
	return &writer{
		currency:   currency,
		categories: newWeights(len(categories), func(i int) int64 { return categories[i].weight }),
		employer:   newWeights(len(employerOne)*len(employerTwo), harmonic),
	}
}

// write fills in all but a job's identity, place and posting.
func (w *writer) write(j *store.Job, r random) {
	c := categories[w.categories.pick(r)]
	j.Category = c.name
	j.Title = pick(r, c.tasks) + pick(r, titleEnds)
	j.Description = describe(r)
	e := w.employer.pick(r)
	// The long strides keep the few large employers from sharing a first name.
	j.Employer = employerOne[e%len(employerOne)] + " " + employerTwo[(e/len(employerOne)+e)%len(employerTwo)]
	if !r.percent(20) {
		cur := currencies[w.currency]
		amount := r.between(c.lo*cur.rate/cur.step, c.hi*cur.rate/cur.step) * cur.step
		j.Pay = store.Pay{Amount: amount, Currency: w.currency, Per: c.per}
	}
	if r.percent(40) {
		j.Expires = j.Posted.Add(time.Duration(r.between(30*24, 120*24)) * time.Hour)
	}
	if r.percent(3) {
		j.Remote = true
		j.At.Lat, j.At.Lng = 0, 0
	}
}

func describe(r random) string {
	var b strings.Builder
	for i := range r.between(1, 3) {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(pick(r, sentences))
	}
	return b.String()
}

func pick(r random, of []string) string { return of[r.below(int64(len(of)))] }
