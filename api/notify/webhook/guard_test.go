package webhook

import (
	"net/netip"
	"testing"
)

func TestReachable(t *testing.T) {
	strict := newGuard(nil)
	lab := newGuard([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("fd00::/8")})
	for addr, want := range map[string][2]bool{ // strict, lab
		"93.184.216.34": {true, true}, "8.8.8.8": {true, true}, "2606:2800:220:1::1": {true, true}, "2a00:1450::1": {true, true},
		"172.15.255.255": {true, true}, "172.32.0.0": {true, true}, "100.63.255.255": {true, true}, "100.128.0.0": {true, true},
		"127.0.0.1": {false, true}, "127.255.255.255": {false, true}, "::ffff:127.0.0.1": {false, true}, "fd00:ec2::254": {false, true},
		"0.0.0.0": {}, "0.1.2.3": {}, "10.0.0.1": {}, "172.16.0.1": {}, "172.31.255.255": {}, "192.168.1.1": {},
		"169.254.169.254": {}, "169.254.0.1": {}, "168.63.129.16": {}, "100.100.100.200": {}, "192.0.0.192": {},
		"192.0.2.1": {}, "198.18.0.1": {}, "198.19.255.255": {}, "198.51.100.7": {}, "203.0.113.9": {}, "192.88.99.1": {},
		"224.0.0.1": {}, "239.255.255.255": {}, "240.0.0.1": {}, "255.255.255.255": {},
		"::": {}, "::1": {}, "::ffff:10.0.0.1": {}, "::10.0.0.1": {}, "fe80::1": {}, "fe80::1%eth0": {}, "fec0::1": {}, "fc00::1": {}, "ff02::1": {},
		"64:ff9b::7f00:1": {}, "64:ff9b:1::1": {}, "100::1": {}, "2001::1": {}, "2001:db8::1": {}, "2002:7f00:1::": {}, "3fff::1": {}, "4000::1": {},
	} {
		a := netip.MustParseAddr(addr)
		if got := [2]bool{strict.reachable(a), lab.reachable(a)}; got != want {
			t.Errorf("%s: strict and in the laboratory %v, want %v", addr, got, want)
		}
	}
	if strict.reachable(netip.Addr{}) {
		t.Error("no address is reachable")
	}
}

func TestCheck(t *testing.T) {
	g := newGuard(nil)
	for _, test := range []struct {
		network, address string
		ok               bool
	}{
		{"tcp4", "8.8.8.8:443", true}, {"tcp6", "[2606:2800:220:1::1]:443", true},
		{"udp4", "8.8.8.8:443", false}, {"unix", "/run/docker.sock", false}, {"tcp4", "8.8.8.8", false}, {"tcp4", "example.com:443", false},
		{"tcp4", "127.0.0.1:443", false}, {"tcp6", "[fe80::1%eth0]:443", false}, {"tcp6", "[::ffff:127.0.0.1]:443", false},
	} {
		if err := g.check(test.network, test.address); (err == nil) != test.ok {
			t.Errorf("check(%s, %s): %v", test.network, test.address, err)
		}
	}
}
