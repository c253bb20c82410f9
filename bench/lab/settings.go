package lab

import (
	"context"

	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/bench/scratch"
)

// ReadSettings returns what shapes plans and times on a server, as [Config.Run] tells it.
// It makes a schema for a moment. container says that the server was started for this.
func ReadSettings(ctx context.Context, server *scratch.Server, container bool) (result.Settings, error) {
	r := &run{c: Config{Server: server, Container: container}}
	e, err := r.survey(ctx)
	if err != nil {
		return result.Settings{}, err
	}
	return e.Settings, nil
}
