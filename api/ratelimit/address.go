package ratelimit

import (
	"net/http"
	"net/netip"
	"strings"
)

// Address returns the address that a request comes from, without a zone; the zero
// Addr if it has none. See the package comment for whom it believes.
func (l *Limiter) Address(r *http.Request) netip.Addr {
	peer, ok := parseAddr(r.RemoteAddr)
	if !ok {
		return netip.Addr{}
	}
	if !l.trusted(peer) {
		return peer
	}
	// From the nearest hop outwards: each trusted one vouches for the one before
	// it. A hop that is no address ends the chain.
	lines := r.Header.Values("X-Forwarded-For")
	for i := len(lines) - 1; i >= 0; i-- {
		for rest := lines[i]; rest != ""; {
			hop := rest
			if comma := strings.LastIndexByte(rest, ','); comma >= 0 {
				rest, hop = rest[:comma], rest[comma+1:]
			} else {
				rest = ""
			}
			addr, ok := parseAddr(strings.Trim(hop, " \t"))
			if !ok {
				return peer
			}
			if peer = addr; !l.trusted(peer) {
				return peer
			}
		}
	}
	return peer
}

func (l *Limiter) trusted(a netip.Addr) bool {
	for _, p := range l.config.TrustedProxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// parseAddr reads an address with or without a port, as Go and proxies write it:
// 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1] or [2001:db8::1]:80.
func parseAddr(s string) (netip.Addr, bool) {
	if p, err := netip.ParseAddrPort(s); err == nil {
		return p.Addr().Unmap().WithZone(""), true
	}
	if len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']' {
		s = s[1 : len(s)-1]
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return a.Unmap().WithZone(""), true
}
