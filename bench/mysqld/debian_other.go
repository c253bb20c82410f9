//go:build !linux

package mysqld

import (
	"context"
	"errors"

	"github.com/moby/moby/client"
)

// buildImage needs debootstrap.
func buildImage(context.Context, *client.Client, func(string, ...any)) error {
	return errors.New("building an image needs Linux")
}
