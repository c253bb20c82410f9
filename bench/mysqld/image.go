package mysqld

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

const (
	defaultImage = "mysql:9.7"

	// builtImage is never pulled: on a public registry the name could be anybody's.
	builtImage = "nearjob/mysql-debian:sid"

	// labelRecipe holds the hash of what builtImage was made from, so that a
	// change of the recipe replaces the image.
	labelRecipe = "nearjob.mysqld.recipe"

	// pullStall ends a pull that makes no progress. A slow pull may go on.
	pullStall = 20 * time.Second

	entrypointPath = "/usr/local/bin/nearjob-mysql-entrypoint"
	debianSuite    = "sid"
	debianPackages = "mysql-server-core,mysql-client-core"
)

//go:embed image/entrypoint.sh
var entrypoint []byte

// imageChanges are the Dockerfile instructions of the built image.
var imageChanges = []string{
	`ENTRYPOINT ["` + entrypointPath + `"]`,
	`CMD ["mysqld"]`,
	`VOLUME /var/lib/mysql`,
	`EXPOSE 3306`,
}

var errStalled = fmt.Errorf("no progress for %v", pullStall)

// ensureImage returns the name of a MySQL image that is in the local store,
// pulling or building it if need be. locks is the folder for lock files.
func ensureImage(ctx context.Context, docker *client.Client, locks string, logf func(string, ...any)) (string, error) {
	image, explicit := os.Getenv(EnvImage), true
	if image == "" {
		image, explicit = defaultImage, false
	}
	if image != builtImage {
		present, err := hasImage(ctx, docker, image, "")
		if err != nil || present {
			return image, err
		}
	}
	if !explicit || image == builtImage {
		present, err := hasImage(ctx, docker, builtImage, recipe())
		if err != nil || present {
			return builtImage, err
		}
	}
	if image != builtImage {
		logf("pulling %s", image)
		err := pull(ctx, docker, image)
		if err == nil {
			return image, nil
		}
		if explicit {
			return "", fmt.Errorf("image %s is not here and cannot be pulled: %w "+
				"(pull it by hand, unset %s, or name a MySQL server that is there already)", image, err, EnvImage)
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		logf("cannot pull %s: %v", image, err)
	}

	lock, err := lockFile(ctx, filepath.Join(locks, "build.lock"), func() {
		logf("waiting for another process that builds %s", builtImage)
	})
	if err != nil {
		return "", err
	}
	defer lock.unlock()
	if present, err := hasImage(ctx, docker, builtImage, recipe()); err != nil || present {
		return builtImage, err
	}
	if err := buildImage(ctx, docker, logf); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", fmt.Errorf("no MySQL image: %s cannot be pulled and %s cannot be built: %w "+
			"(docker pull or docker load an image and name it in %s, or name a MySQL server that is there already)",
			defaultImage, builtImage, err, EnvImage)
	}
	return builtImage, nil
}

// recipe returns a hash of all that makes the built image.
func recipe() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%q\n", debianSuite, debianPackages, imageChanges)
	h.Write(entrypoint)
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// hasImage reports whether image is in the local store and, if recipe is not
// empty, was built from it.
func hasImage(ctx context.Context, docker *client.Client, image, recipe string) (bool, error) {
	res, err := docker.ImageInspect(ctx, image)
	if isNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for image %s: %w", image, err)
	}
	return recipe == "" || res.Config != nil && res.Config.Labels[labelRecipe] == recipe, nil
}

// pull fetches an image, with the credentials of the user's Docker
// configuration, and gives up when nothing moves.
func pull(ctx context.Context, docker *client.Client, image string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(pullStall, func() { cancel(errStalled) })
	defer stall.Stop()

	var opts client.ImagePullOptions
	if _, auth, err := testcontainers.DockerImageAuth(ctx, image); err == nil { // else try without
		data, err := json.Marshal(auth)
		if err != nil {
			return err
		}
		opts.RegistryAuth = base64.URLEncoding.EncodeToString(data)
	}
	res, err := docker.ImagePull(ctx, image, opts)
	if err != nil {
		return stallOr(ctx, err)
	}
	defer res.Close()
	for msg, err := range res.JSONMessages(ctx) {
		if err != nil {
			return stallOr(ctx, err)
		}
		if msg.Error != nil {
			return msg.Error
		}
		stall.Reset(pullStall)
	}
	return nil
}

// stallOr returns the cause of ctx's end if it is a stall, otherwise err.
func stallOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
		return cause
	}
	return err
}

func isNotFound(err error) bool { return errdefs.IsNotFound(err) }

// removeImage removes an image that a new build replaced. A container may still
// use it; then it stays, which costs only space.
func removeImage(ctx context.Context, docker *client.Client, id string, logf func(string, ...any)) {
	if _, err := docker.ImageRemove(ctx, id, client.ImageRemoveOptions{}); err != nil && !isNotFound(err) {
		logf("the replaced image %s stays: %v", strings.TrimPrefix(id, "sha256:")[:12], err)
	}
}

// importResult reads the daemon's messages on an import to their end and
// returns the error that they report.
func importResult(r io.Reader) error {
	messages := json.NewDecoder(r)
	for {
		var msg jsonstream.Message
		if err := messages.Decode(&msg); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the daemon's answer: %w", err)
		}
		if msg.Error != nil {
			return msg.Error
		}
	}
}
