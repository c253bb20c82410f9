package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math"

	"github.com/nearjob/nearjob/geo"
)

// Limits of a [Blur].
const (
	MinBlurSecret = 16      // bytes
	MinBlurRadius = 10      // metres
	MaxBlurRadius = 100_000 // metres
)

// ErrPlaces is a search table whose places are blurred otherwise than this program
// is told to.
var ErrPlaces = errors.New("the places in the search table are blurred otherwise than this program is told to")

// Blur gives jobs other places than their own, at most a radius away, so that a
// search does not tell where exactly somebody lives. What the search tables hold is
// the blurred place: inclusion, order, distance, cell and alerts follow from it, so
// that distances measured from many points lead to the blurred place and to nothing better.
// A nil Blur leaves places as they are. Safe for concurrent use.
//
// # Why it cannot be averaged away
//
// The earth is divided into squares with sides of a sixth of the radius, and all places in a
// square are blurred to one and the same point, which is drawn by HMAC-SHA-256
// (RFC 2104) from the secret, the square and who posts. So a place does not move when it is read
// again, when the job is edited, or when the same person posts another job from the
// same home a few metres off: there is nothing to take the mean of. With the poster
// in it, nobody can learn where squares are blurred to by posting jobs of his own. An
// imported job has no poster: its source and employer stand for one, or its number there
// where no employer is named.
//
// Known limits: who knows that several people, or imported jobs without an employer, are
// of one building may take the mean of their points. A home on the edge of a square has two points, in a corner four, when its
// owner's phone says now one side and now the other: their mean is still a mean of so
// many, and no more of them ever come.
type Blur struct {
	mac    func() hash.Hash // keyed; a function, so that nothing prints the secret
	radius float64
}

// NewBlur returns a blur of a radius in metres. The error is an *[InvalidError], which
// does not repeat the secret.
func NewBlur(secret []byte, radius float64) (*Blur, error) {
	var f faults
	if len(secret) < MinBlurSecret {
		f.add("blur_secret", "has %d bytes: want at least %d random ones", len(secret), MinBlurSecret)
	}
	if !(radius >= MinBlurRadius && radius <= MaxBlurRadius) {
		f.add("blur_m", "%v is not %d..%d metres", radius, MinBlurRadius, MaxBlurRadius)
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	secret = append([]byte(nil), secret...)
	return &Blur{mac: func() hash.Hash { return hmac.New(sha256.New, secret) }, radius: radius}, nil
}

// String says how far.
func (b *Blur) String() string {
	if b == nil {
		return "not blurred"
	}
	return fmt.Sprintf("blurred by up to %v m", b.radius)
}

// MayWrite returns [ErrPlaces] when places by this blur must not come among those of a
// search table that are by the blur of a key. For engines.
func (b *Blur) MayWrite(key string) error {
	if b.Key() == key {
		return nil
	}
	const way = "%w: it has %s. Start it with the radius and the secret of the other nodes, or change the table with nearjob migrate"
	if key == "" {
		return fmt.Errorf(way, ErrPlaces, "the jobs' own places, and this program is to blur them")
	}
	if b == nil {
		return fmt.Errorf(way, ErrPlaces, "blurred places, and this program would show where the jobs are")
	}
	return fmt.Errorf(way, ErrPlaces, "places by another radius or secret")
}

// Ready returns [ErrPlaces] when a search table whose places are by the blur of a key,
// or on their way to that, is not for this blur to search. For engines.
func (b *Blur) Ready(key string, unfinished bool) error {
	if err := b.MayWrite(key); err != nil {
		return err
	}
	if unfinished {
		return fmt.Errorf("%w: they are being changed, which may have been interrupted: wait for nearjob migrate, or run it again with the same settings", ErrPlaces)
	}
	return nil
}

// Reblurrer is an engine whose search table can be brought to its blur.
//
// The database notes the [Blur.Key] of the blur that its places are by. An engine with another
// one, or none, writes no place, tells no alert and is not ready, each time
// with [ErrPlaces], so that no table holds places of two blurs. Migrate makes a table
// that holds no place yet the engine's own; it never changes or takes off a blur that there is,
// which a forgotten setting must not do. That is for Reblur alone.
//
// Known limits: while Reblur runs, nodes that were ready before still answer searches,
// with a job at its place from before or at its new one; and whoever has seen both knows two points for each
// place. A secret is therefore not to be changed as a habit. Programs from before there
// were blurs do not look at the note: stop them before the first Reblur.
type Reblurrer interface {
	// Reblur brings every place in the search table to the engine's blur, in many
	// small transactions beside which jobs open and close, and tells progress, unless it is nil, how
	// many are done. From its first moment on, engines with another blur write
	// no more. When it is interrupted, no engine is ready until it has run again,
	// from its beginning. With nothing to change it does nothing. Any number of nodes may call it at once.
	Reblur(ctx context.Context, progress func(done int)) error
}

// Key tells blurs apart without telling the secret: places by blurs of one key are
// the same. It is "" for none.
func (b *Blur) Key() string {
	if b == nil {
		return ""
	}
	return hex.EncodeToString(b.sum("key")[:16])
}

// sum is the keyed hash of some parts and the radius.
func (b *Blur) sum(parts ...string) []byte {
	h := b.mac()
	var n [8]byte
	put := func(v uint64) {
		binary.BigEndian.PutUint64(n[:], v)
		h.Write(n[:]) // a hash's Write returns no error
	}
	put(math.Float64bits(b.radius))
	for _, p := range parts {
		put(uint64(len(p))) // so that no two lists run together
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

// Place returns where a job is for those who have no part in it: within the radius,
// to the nearest millionth of a degree. A remote job has no place, before or after.
func (b *Blur) Place(j *Job) geo.LatLng {
	if b == nil || j.Remote {
		return j.At
	}
	var parts []string
	switch {
	case j.Requester != "":
		parts = []string{"requester", string(j.Requester)}
	case j.Employer != "":
		parts = []string{"employer", j.Source, j.Employer}
	default:
		parts = []string{"source", j.Source, j.SourceID}
	}
	row, column, middle := b.square(j.At)
	sum := b.sum(append(parts, fmt.Sprint(row), fmt.Sprint(column))...)
	// A uniform point of a disc: the area within a distance grows with its square.
	away := b.reach() * math.Sqrt(unit(sum[:8]))
	return offset(middle, away, 2*math.Pi*unit(sum[8:16]))
}

// unit makes a number 0 <= u < 1 of 8 bytes.
func unit(b []byte) float64 { return float64(binary.BigEndian.Uint64(b)>>11) / (1 << 53) }

// side is the height of a square in degrees.
func (b *Blur) side() float64 { return b.radius / 6 / geo.EarthRadius * (180 / math.Pi) }

// reach is how far from the middle of its square a place may be blurred to. The middle is at most
// 1.5 sides from any point of the square, a quarter of the radius: the width is at most
// that where a row has one square, next to the poles, and less elsewhere. What is
// left to the radius is for the rounding.
func (b *Blur) reach() float64 { return 0.74 * b.radius }

// square returns the square of a place: its row from the south pole, its column from
// -180, and its middle.
func (b *Blur) square(p geo.LatLng) (row, column int64, middle geo.LatLng) {
	side := b.side()
	row = int64(math.Floor((p.Lat + 90) / side))
	lat := min(-90+float64((float64(row)+0.5)*side), 90)
	columns := max(1, math.Round(360*math.Cos(lat*math.Pi/180)/side))
	lng := p.Lng
	if lng == 180 {
		lng = -180 // the same meridian
	}
	column = min(int64(math.Floor((lng+180)/360*columns)), int64(columns)-1)
	return row, column, geo.LatLng{Lat: lat, Lng: -180 + float64((float64(column)+0.5)*360/columns)}
}

// offset returns the point at a distance in metres from another one, in a direction in
// radians from north, to the millionth of a degree.
//
// Source: the direct problem on the sphere, Ed Williams' Aviation Formulary.
func offset(from geo.LatLng, distance, bearing float64) geo.LatLng {
	d := distance / geo.EarthRadius
	lat1, lng1 := from.Lat*math.Pi/180, from.Lng*math.Pi/180
	sin := float64(math.Sin(lat1)*math.Cos(d)) + float64(math.Cos(lat1)*math.Sin(d)*math.Cos(bearing))
	lat2 := math.Asin(max(-1, min(1, sin)))
	lng2 := lng1 + math.Atan2(math.Sin(bearing)*math.Sin(d)*math.Cos(lat1), math.Cos(d)-float64(math.Sin(lat1)*sin))
	// After the rounding, the last bits of sines that another machine computes differently
	// hardly ever count.
	round := func(rad float64) float64 { return math.Round(rad*180/math.Pi*1e6) / 1e6 }
	lng := math.Mod(round(lng2)+540, 360) - 180
	if lng <= -180 {
		lng = 180
	}
	return geo.LatLng{Lat: max(-90, min(90, round(lat2))), Lng: math.Round(lng*1e6) / 1e6}
}
