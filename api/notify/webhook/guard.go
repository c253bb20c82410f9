package webhook

import (
	"fmt"
	"net/netip"
	"slices"
)

// forbidden are the ranges that are no place on the public internet, or lead from
// it back inside: the special-purpose registries of IANA (RFC 6890), and the one
// metadata service of a cloud that lives at a public address. Loopback, private,
// link-local (with the metadata address 169.254.169.254) and multicast addresses
// are among them.
//
// Of IPv6 only 2000::/3 is public at all (see reachable); the prefixes below it
// carry an IPv4 address inside (Teredo, 6to4), or are not routed.
func forbidden() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),        // this host, this network
		netip.MustParsePrefix("10.0.0.0/8"),       // private
		netip.MustParsePrefix("100.64.0.0/10"),    // carrier-grade NAT; 100.100.100.200 is a metadata service
		netip.MustParsePrefix("127.0.0.0/8"),      // loopback
		netip.MustParsePrefix("168.63.129.16/32"), // Azure's host agent
		netip.MustParsePrefix("169.254.0.0/16"),   // link-local; 169.254.169.254 is the usual metadata service
		netip.MustParsePrefix("172.16.0.0/12"),    // private
		netip.MustParsePrefix("192.0.0.0/24"),     // protocol assignments; 192.0.0.192 is a metadata service
		netip.MustParsePrefix("192.0.2.0/24"),     // documentation
		netip.MustParsePrefix("192.31.196.0/24"),  // AS112
		netip.MustParsePrefix("192.52.193.0/24"),  // AMT
		netip.MustParsePrefix("192.88.99.0/24"),   // 6to4 relays
		netip.MustParsePrefix("192.168.0.0/16"),   // private
		netip.MustParsePrefix("192.175.48.0/24"),  // AS112
		netip.MustParsePrefix("198.18.0.0/15"),    // benchmarks
		netip.MustParsePrefix("198.51.100.0/24"),  // documentation
		netip.MustParsePrefix("203.0.113.0/24"),   // documentation
		netip.MustParsePrefix("224.0.0.0/4"),      // multicast
		netip.MustParsePrefix("240.0.0.0/4"),      // reserved; broadcast
		netip.MustParsePrefix("2001::/23"),        // protocol assignments; Teredo
		netip.MustParsePrefix("2001:db8::/32"),    // documentation
		netip.MustParsePrefix("2002::/16"),        // 6to4
		netip.MustParsePrefix("3fff::/20"),        // documentation
	}
}

// guard decides which addresses may be dialled.
type guard struct {
	never  []netip.Prefix
	public netip.Prefix // of IPv6
	allow  []netip.Prefix
}

func newGuard(allow []netip.Prefix) *guard {
	return &guard{never: forbidden(), public: netip.MustParsePrefix("2000::/3"), allow: slices.Clone(allow)}
}

// check takes the address that is about to be dialled, after names were resolved,
// as net.Dialer's Control sees it.
func (g *guard) check(network, address string) error {
	switch network {
	case "tcp4", "tcp6":
	default:
		return fmt.Errorf("network %s is not TCP", network)
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q cannot be checked: %w", address, err)
	}
	if !g.reachable(ap.Addr()) {
		return fmt.Errorf("address %s is not on the public internet: name its network in Options.Allow if it is meant", ap.Addr())
	}
	return nil
}

// reachable reports whether an address may be dialled.
func (g *guard) reachable(a netip.Addr) bool {
	a = a.Unmap().WithZone("") // ::ffff:127.0.0.1 is 127.0.0.1; a prefix never holds a zone
	in := func(p netip.Prefix) bool { return p.Contains(a) }
	if slices.ContainsFunc(g.allow, in) {
		return true
	}
	if !a.IsValid() || a.Is6() && !g.public.Contains(a) {
		return false
	}
	return !slices.ContainsFunc(g.never, in)
}
