package cell

import (
	"math"
	"sync"

	"github.com/golang/geo/r3"
	"github.com/golang/geo/s2"
	"github.com/uber/h3-go/v4"
)

// H3 projects each face of an icosahedron from its plane to the sphere, from the
// centre of the earth. In the plane a cell's centre is its parent's and a step in
// one of six directions. So it can be added up from the digits, in a tenth of the
// time of a call into C. Where the faces are and how the digits lie on them is
// taken from the library's centres of the two coarsest levels, once.

// h3Unit is how far apart neighbours of level 0 have their centres on the plane,
// with the sphere's radius as 1: RES0_U_GNOMONIC in H3's constants.h. It is
// sqrt(7) times less from level to level.
const h3Unit = 0.38196601125010500003

// h3Face is a face of the icosahedron and how a base cell lies on its plane. A
// pentagon, around a corner, has one for each of its five sectors.
type h3Face struct {
	center, x, y r3.Vector // the base cell's centre, and axes of length 1

	// weight holds the barycentric coordinates of a point as dot products. The i-th
	// is negative for points beyond the edge opposite to corner i. They lie on the
	// next face: fold times the weight takes a point of the plane there.
	weight, fold [3]r3.Vector
}

// onto returns the point of the plane in a direction.
func (f *h3Face) onto(v r3.Vector) r3.Vector { return v.Mul(1 / v.Dot(f.normal())) }

func (f *h3Face) normal() r3.Vector { return f.weight[0].Add(f.weight[1]).Add(f.weight[2]) }

// outermost returns the least weight of a point and which it is.
func (f *h3Face) outermost(p r3.Vector) (i int, weight float64) {
	weight = p.Dot(f.weight[0])
	for k := 1; k < 3; k++ {
		if w := p.Dot(f.weight[k]); w < weight {
			i, weight = k, w
		}
	}
	return i, weight
}

// h3Grid is what centres are computed from.
type h3Grid struct {
	steps [h3Finest + 1][7][2]float64 // from a parent's centre, by level and digit
	faces [122][7]*h3Face             // by base cell and first digit that is not 0
}

// center returns the centre of a cell, as the library computes it but for
// rounding, as a vector of length 1.
func (g *h3Grid) center(c Cell) r3.Vector {
	x, y, first := 0.0, 0.0, Cell(0)
	for level := range h3Level(c) {
		digit := h3DigitAt(c, level+1)
		if first == 0 {
			first = digit
		}
		step := &g.steps[level+1][digit]
		x, y = x+step[0], y+step[1]
	}
	f := g.faces[h3Base(c)][first]
	p := f.center.Add(f.x.Mul(x)).Add(f.y.Mul(y))
	if i, weight := f.outermost(p); weight < 0 {
		p = p.Add(f.fold[i].Mul(weight))
	}
	return p.Mul(1 / p.Norm())
}

// h3Angle is the direction of a digit in radians, anticlockwise. Odd levels are
// turned against even ones.
func h3Angle(level int, digit Cell) float64 {
	sixths := [7]float64{0, 4, 2, 3, 0, 5, 1}[digit]
	return sixths*math.Pi/3 + float64(level%2)*math.Asin(math.Sqrt(3.0/28))
}

var h3Centers = sync.OnceValue(func() *h3Grid {
	g := &h3Grid{}
	for level := 1; level <= h3Finest; level++ {
		length := h3Unit * math.Pow(7, -float64(level)/2)
		for digit := 1; digit < 7; digit++ {
			sin, cos := math.Sincos(h3Angle(level, Cell(digit)))
			g.steps[level][digit] = [2]float64{length * cos, length * sin}
		}
	}
	faces := h3Faces()
	// on returns the face that a point is on.
	on := func(v r3.Vector) h3Face {
		best, most := 0, -1.0
		for i := range faces {
			if _, w := faces[i].outermost(v); w > most {
				best, most = i, w
			}
		}
		return faces[best]
	}
	for base, root := range h3.Res0Cells() {
		inside := -1.0
		for _, kid := range root.ImmediateChildren() {
			digit := h3DigitAt(Cell(kid), 1)
			if digit == 0 {
				continue
			}
			v := h3Vector(kid)
			f := on(h3Vector(root))
			if root.IsPentagon() {
				f = on(v)
			}
			_, w := f.outermost(v)
			if !root.IsPentagon() && w < inside {
				continue // only a child that is on the face of its parent can tell how it lies
			}
			inside = w
			f.center = f.onto(h3Vector(root))
			step := f.onto(v).Sub(f.center).Normalize()
			sin, cos := math.Sincos(h3Angle(1, digit))
			f.x = step.Mul(cos).Sub(f.normal().Cross(step).Mul(sin))
			f.y = f.normal().Cross(f.x)
			for first := range g.faces[base] {
				if first == int(digit) || first == 0 || !root.IsPentagon() {
					g.faces[base][first] = &f
				}
			}
		}
	}
	return g
})

// h3Faces returns the 20 faces of the icosahedron, whose corners are the centres
// of the pentagons. The planes touch the sphere.
func h3Faces() []h3Face {
	var corners []r3.Vector
	for _, c := range h3.Pentagons(0) {
		corners = append(corners, h3Vector(c))
	}
	near := func(a, b r3.Vector) bool { return a != b && a.Dot(b) > 0 }
	var faces []h3Face
	for i, a := range corners {
		for j, b := range corners[:i] {
			for _, c := range corners[:j] {
				if !near(a, b) || !near(a, c) || !near(b, c) {
					continue
				}
				scale := 1 / a.Dot(a.Add(b).Add(c).Normalize())
				f := h3Face{}
				abc := [3]r3.Vector{a, b, c}
				for k, p := range abc {
					q, r := abc[(k+1)%3], abc[(k+2)%3]
					f.weight[k] = q.Cross(r).Mul(1 / (scale * p.Dot(q.Cross(r))))
					for _, beyond := range corners {
						if beyond != p && near(beyond, q) && near(beyond, r) {
							f.fold[k] = q.Add(r).Sub(p).Sub(beyond).Mul(scale)
						}
					}
				}
				faces = append(faces, f)
			}
		}
	}
	return faces
}

func h3Vector(c h3.Cell) r3.Vector {
	center := c.LatLng()
	return s2.PointFromLatLng(s2.LatLngFromDegrees(center.Lat, center.Lng)).Vector
}
