package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"

	"github.com/nats-io/nkeys"

	"stint/events/bus"
)

// Keys is a folder of credentials: one file for each role, <role>.nk with ":" as ".", mode 0600, which holds the
// role's nkey seed. The server needs the public halves only; hand each process its own file.
type Keys struct {
	dir string
	mu  sync.Mutex
}

// OpenKeys opens the folder, which is made with mode 0700 if it is not there.
func OpenKeys(dir string) (*Keys, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening the keys of the bus: %w", err)
	}
	return &Keys{dir: dir}, nil
}

// Path returns the file of the role's key, whether or not it exists.
func (k *Keys) Path(role bus.Role) string {
	return filepath.Join(k.dir, strings.Replace(role.String(), ":", ".", 1)+".nk")
}

// Seed returns the role's seed, made when it is asked for the first time.
func (k *Keys) Seed(role bus.Role) ([]byte, error) {
	if err := role.Valid(); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	path := k.Path(role)
	seed, err := ReadSeed(path)
	if !errors.Is(err, os.ErrNotExist) {
		return seed, err
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, fmt.Errorf("making a key for %s: %w", role, err)
	}
	if seed, err = pair.Seed(); err != nil {
		return nil, fmt.Errorf("making a key for %s: %w", role, err)
	}
	// Written whole under another name first: a key that is half there locks its owner out. Linked and not
	// renamed: if another process was quicker, its key stays.
	temp, err := os.CreateTemp(k.dir, ".new-*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("making a key for %s: %w", role, err)
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(append(seed, '\n'))
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return nil, fmt.Errorf("making a key for %s: %w", role, err)
	}
	if err := os.Link(temp.Name(), path); errors.Is(err, os.ErrExist) {
		return ReadSeed(path)
	} else if err != nil {
		return nil, fmt.Errorf("making a key for %s: %w", role, err)
	}
	return seed, nil
}

// ReadSeed reads a role's key file, refusing one that others may read.
func ReadSeed(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading a key of the bus: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("reading a key of the bus: others may read %s; do: chmod 600 %s", path, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a key of the bus: %w", err)
	}
	seed := []byte(strings.TrimSpace(string(text)))
	if _, err := nkeys.FromSeed(seed); err != nil {
		return nil, fmt.Errorf("reading a key of the bus: %s: %w", path, err)
	}
	return seed, nil
}

// Roles returns the roles that have a key, in the order of their names.
func (k *Keys) Roles() ([]bus.Role, error) {
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		return nil, fmt.Errorf("reading the keys of the bus: %w", err)
	}
	var roles []bus.Role
	for _, e := range entries {
		name, isKey := strings.CutSuffix(e.Name(), ".nk")
		if !isKey {
			continue
		}
		role, err := bus.ParseRole(strings.Replace(name, ".", ":", 1))
		if err != nil {
			return nil, fmt.Errorf("reading the keys of the bus: %s: %w", e.Name(), err)
		}
		roles = append(roles, role)
	}
	sort.Slice(roles, func(i, j int) bool { return roles[i].String() < roles[j].String() })
	return roles, nil
}

// public returns the role's public key.
func (k *Keys) public(role bus.Role) (string, error) {
	seed, err := k.Seed(role)
	if err != nil {
		return "", err
	}
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return "", err
	}
	return pair.PublicKey()
}

// Users returns the roles that have a key as the users block of a NATS server's configuration, with the
// permissions of each: what the servers of a cluster include. It holds no secret.
func (k *Keys) Users() (string, error) {
	roles, err := k.Roles()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("# Who may do what on the bus. Written by Stint from its key files; holds public keys only.\nusers: [\n")
	for _, role := range roles {
		public, err := k.public(role)
		if err != nil {
			return "", err
		}
		publish, subscribe := role.Permissions()
		fmt.Fprintf(&out, "  # %s\n  { nkey: %s, permissions: {\n    publish: [%s]\n    subscribe: [%s]\n  } }\n",
			role, public, quoted(publish), quoted(subscribe))
	}
	out.WriteString("]\n")
	return out.String(), nil
}

func quoted(list []string) string {
	var q []string
	for _, s := range list {
		q = append(q, `"`+s+`"`)
	}
	return strings.Join(q, ", ")
}
