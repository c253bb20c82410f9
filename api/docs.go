package api

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"time"
)

// web is the documentation page with RapiDoc 9.3.8 (MIT), which draws it.
//
//go:embed web/docs.html web/rapidoc
var web embed.FS

// docsPolicy lets the page load only what this server serves. RapiDoc sets style
// attributes, which need 'unsafe-inline' for styles; scripts need none.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (a *api) docs() {
	page := must(web.ReadFile("web/docs.html"))
	show := static("text/html; charset=utf-8", page)
	a.mux.HandleFunc("GET /docs", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", docsPolicy)
		show.ServeHTTP(w, r)
	})
	for _, e := range must(web.ReadDir("web/rapidoc")) {
		contentType := "text/plain; charset=utf-8"
		if e.Name() == "rapidoc-min.js" {
			contentType = "text/javascript; charset=utf-8"
		}
		a.mux.Handle("GET /docs/rapidoc/"+e.Name(), static(contentType, must(web.ReadFile("web/rapidoc/"+e.Name()))))
	}
	a.mux.Handle("GET /{$}", http.RedirectHandler("docs", http.StatusFound))
}

// must is for embedded files, which are there or the program was not built.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// static serves bytes that only a new version of the program changes.
func static(contentType string, body []byte) http.Handler {
	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", contentType)
		h.Set("Cache-Control", "no-cache") // may be kept, but ask whether it is still current
		h.Set("ETag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	})
}
