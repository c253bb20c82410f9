package lab

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain finds goroutines that a run leaves behind, broken off or not.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
