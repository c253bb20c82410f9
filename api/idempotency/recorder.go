package idempotency

import (
	"bytes"
	"cmp"
	"net/http"
)

// recorder holds an answer back until it is kept. One that grows beyond max bytes
// spills: it goes to the client as it comes, and nothing of it is kept. It offers
// no flushing and no way around itself.
type recorder struct {
	http.ResponseWriter
	max     int
	status  int // 0 until it is set
	body    bytes.Buffer
	spilled bool
}

func (r *recorder) WriteHeader(status int) {
	switch {
	case status < 200: // informational: another one follows
		r.ResponseWriter.WriteHeader(status)
	case r.status == 0:
		r.status = status
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.status = cmp.Or(r.status, http.StatusOK)
	if !r.spilled && r.body.Len()+len(b) > r.max {
		r.spilled = true
		r.ResponseWriter.WriteHeader(r.status)
		if _, err := r.ResponseWriter.Write(r.body.Bytes()); err != nil {
			return 0, err
		}
		r.body.Reset()
	}
	if r.spilled {
		return r.ResponseWriter.Write(b)
	}
	return r.body.Write(b)
}

// send sends what was held back.
func (r *recorder) send() {
	if r.spilled {
		return
	}
	if r.status == 0 {
		return // net/http answers 200 by itself
	}
	r.ResponseWriter.WriteHeader(r.status)
	_, _ = r.ResponseWriter.Write(r.body.Bytes()) // a client that is gone needs no answer
}

// nowhere is a ResponseWriter that keeps nothing but headers.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}
