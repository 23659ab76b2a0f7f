package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"stint/events/bus"
	"stint/events/bus/jet"
	"stint/events/bus/server"
)

// A bus elsewhere is one or three servers that somebody else runs (deployments/nats). Their keys are made before, with what the
// servers are to know of them; here lie those of the roles that this host plays.

// busElsewhere reads --bus: one server, or an odd number of them.
func busElsewhere(text string) (urls string, err error) {
	list := strings.Split(text, ",")
	if len(list) != 1 && len(list) != 3 && len(list) != 5 {
		return "", fmt.Errorf("--bus names %d servers: name one, three or five, all that there are, with commas between", len(list))
	}
	for i, one := range list {
		list[i] = strings.TrimSpace(one)
		if u, err := url.Parse(list[i]); err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls" {
			return "", fmt.Errorf("--bus: %q is not the address of a server: write nats://HOST:PORT", one)
		}
	}
	return strings.Join(list, ","), nil
}

// provisionElsewhere makes the streams on the servers of a bus elsewhere if they are not there, a copy on each. Only a host that has
// the admin's key can; another one finds them made.
func (h *host) provisionElsewhere(ctx context.Context, patience time.Duration) error {
	keys, err := server.OpenKeys(h.dir.Keys())
	if err != nil {
		return err
	}
	for _, role := range h.roles() {
		switch _, err := server.ReadSeed(keys.Path(role)); {
		case errors.Is(err, os.ErrNotExist) && role.Kind == bus.Admin:
			return nil
		case errors.Is(err, os.ErrNotExist) && role.Kind != bus.Service:
			return fmt.Errorf("%s has no key of %s for the bus at %s: make it with `go run ./deployments/nats/keys -dir %s …`, and give the servers the users.conf that it prints", h.dir.Keys(), role, h.cluster.URL, h.dir.Keys())
		case err != nil && !errors.Is(err, os.ErrNotExist):
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	b, err := h.connect(ctx, bus.Role{Kind: bus.Admin}, nil)
	if err == nil {
		defer b.Close()
		_, err = h.provision(ctx, b, jet.Layout{Replicas: 1 + strings.Count(h.cluster.URL, ","), Synced: true})
	}
	if err != nil {
		return fmt.Errorf("making the streams on the bus at %s, which has to run before: %w", h.cluster.URL, err)
	}
	return nil
}
