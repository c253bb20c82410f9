package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nearjob/nearjob/api"
	"github.com/nearjob/nearjob/store"
)

// serve runs a handler on a free port. end ends the server and returns its error.
func serve(t *testing.T, h http.Handler, o api.ServerOptions) (addr string, end func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- api.Serve(ctx, l, h, o) }()
	ended := false
	end = func() error {
		ended = true
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		if !ended {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return l.Addr().String(), end
}

func TestServe(t *testing.T) {
	addr, end := serve(t, server(t, nil), api.ServerOptions{})
	r, err := http.Get("http://" + addr + "/v1/jobs/nearby?lat=0&lng=0&radius_m=0")
	if err != nil {
		t.Fatal(err)
	}
	if b := body(t, r); r.StatusCode != http.StatusOK || !strings.Contains(b, "null island") {
		t.Errorf("%d %s", r.StatusCode, b)
	}
	r, err = http.Head("http://" + addr + "/v1/jobs/nearby?lat=0&lng=0&radius_m=0")
	if err != nil {
		t.Fatal(err)
	}
	if b := body(t, r); r.StatusCode != http.StatusOK || b != "" {
		t.Errorf("HEAD: %d %q", r.StatusCode, b)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := end(); err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		_ = c.Close()
		t.Error("still listening")
	}
}

// slow is an API whose search says when it has begun, and goes on when told to,
// or when its context ends.
func slow() (h http.Handler, begun chan struct{}, goOn chan struct{}) {
	begun, goOn = make(chan struct{}), make(chan struct{})
	h = fakeAPI(fake{find: func(ctx context.Context, _ store.Query) (store.Page, error) {
		close(begun)
		select {
		case <-goOn:
			return store.Page{}, ctx.Err() // an ended context would be an error
		case <-ctx.Done():
			return store.Page{}, ctx.Err()
		}
	}}, nil)
	return h, begun, goOn
}

func TestShutdownFinishesWhatRuns(t *testing.T) {
	h, begun, goOn := slow()
	addr, end := serve(t, h, api.ServerOptions{Grace: time.Minute})
	type result struct {
		status int
		err    error
	}
	answered := make(chan result, 1)
	go func() {
		r, err := http.Get("http://" + addr + "/v1/jobs/nearby?lat=0&lng=0")
		if err != nil {
			answered <- result{err: err}
			return
		}
		_, err = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
		answered <- result{r.StatusCode, err}
	}()
	<-begun
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	for { // until the listener is closed: the shutdown has begun
		c, err := net.Dial("tcp", addr)
		if err != nil {
			break
		}
		_ = c.Close()
	}
	select {
	case err := <-ended:
		t.Fatalf("ended before its request: %v", err)
	default:
	}
	close(goOn)
	if r := <-answered; r.err != nil || r.status != http.StatusOK {
		t.Errorf("the running request: %+v", r)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestShutdownCutsOffAfterGrace(t *testing.T) {
	h, begun, _ := slow()
	addr, end := serve(t, h, api.ServerOptions{Grace: 10 * time.Millisecond})
	failed := make(chan error, 1)
	go func() {
		r, err := http.Get("http://" + addr + "/v1/jobs/nearby?lat=0&lng=0")
		if err == nil {
			_ = r.Body.Close()
		}
		failed <- err
	}()
	<-begun
	if err := end(); err == nil || !strings.Contains(err.Error(), "grace period") {
		t.Errorf("got %v", err)
	}
	<-failed // whatever it got, it does not hang
}

func TestLimits(t *testing.T) {
	addr, _ := serve(t, server(t, nil), api.ServerOptions{ReadHeaderTimeout: 50 * time.Millisecond})
	exchange := func(send string) (status string, rest error) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, send) // the server may hang up before the end of it
		line, err := bufio.NewReader(c).ReadString('\n')
		return line, err
	}
	if got, _ := exchange("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Big: " + strings.Repeat("x", 40<<10) + "\r\n\r\n"); !strings.Contains(got, "431") {
		t.Errorf("a huge header: %q", got)
	}
	// A header that never ends: the server hangs up by itself.
	got, err := exchange("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
	if ne, ok := err.(net.Error); ok && ne.Timeout() || strings.Contains(got, "200") {
		t.Errorf("a slow header: %q, %v", got, err)
	}
	if got, _ := exchange("POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n"); !strings.Contains(got, "413") {
		t.Errorf("a huge body: %q", got)
	}
	if got, _ := exchange("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(got, "200") {
		t.Errorf("a plain request: %q", got)
	}
}

func TestServeError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := api.Serve(context.Background(), l, http.NotFoundHandler(), api.ServerOptions{}); err == nil {
		t.Error("no error from a closed listener")
	}
}

// ExampleNew serves the API on a free port until it is told to end.
func ExampleNew() {
	found := fake{
		find: func(context.Context, store.Query) (store.Page, error) {
			return store.Page{Jobs: []store.Found{{Job: store.Job{ID: 1, Title: "Carry a sofa"}, Distance: 12.5}}}, nil
		},
		ready: func(context.Context) error { return nil },
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	handler := api.New(api.Deps{Search: found, Jobs: found, Ready: found}, api.Options{})
	go func() { ended <- api.Serve(ctx, l, handler, api.ServerOptions{}) }()

	r, err := http.Get("http://" + l.Addr().String() + "/v1/jobs/nearby?lat=40.7&lng=-74")
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Status, r.Header.Get("Content-Type"))
	_ = r.Body.Close()
	stop()
	fmt.Println(<-ended)
	// Output:
	// 200 OK application/json
	// <nil>
}
