package dataset

import (
	"math/bits"
	"math/rand/v2"
)

// random is a stream of random numbers that is the same on every machine.
type random struct {
	pcg *rand.PCG
}

func newRandom(seed, stream uint64) random {
	return random{rand.NewPCG(seed, stream)}
}

// below returns a number 0..n-1. No number is likelier than another by more than n/2^64.
func (r random) below(n int64) int64 {
	hi, _ := bits.Mul64(r.pcg.Uint64(), uint64(n))
	return int64(hi)
}

// between returns a number lo..hi, both included.
func (r random) between(lo, hi int64) int64 { return lo + r.below(hi-lo+1) }

// percent reports true p times of 100.
func (r random) percent(p int64) bool { return r.below(100) < p }

// normal returns a normal deviate in units of 2^-32: the sum of twelve uniform
// numbers of variance 1/12. Its distribution function is within 0.003 of the
// normal one, and it ends at 6 standard deviations.
func (r random) normal() int64 {
	var sum uint64
	for range 6 {
		u := r.pcg.Uint64()
		sum += u>>32 + u&0xffffffff
	}
	return int64(sum) - 6<<32
}

// weights is a distribution over 0..len-1: the running sums of the weights.
type weights []int64

func newWeights(n int, weight func(i int) int64) weights {
	w := make(weights, n)
	var sum int64
	for i := range w {
		sum += weight(i)
		w[i] = sum
	}
	return w
}

// pick returns an index with a probability proportional to its weight.
func (w weights) pick(r random) int {
	u := r.below(w[len(w)-1])
	lo, hi := 0, len(w)-1
	for lo < hi {
		mid := (lo + hi) / 2
		if w[mid] > u {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// harmonic gives the i-th of a heavy-tailed list its weight, proportional to 1/(i+1).
func harmonic(i int) int64 { return 1_000_000 / int64(i+1) }
