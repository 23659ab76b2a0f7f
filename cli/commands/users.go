package commands

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"

	"stint/cli/wire"
	"stint/events"
)

// Users is what a command knows of the host's users without asking the agent.
type Users struct {
	Name func(uid uint32) string          // "" if there is none of that number
	Uid  func(name string) (uint32, bool) // the number of a name
	In   func(group string) bool          // whether the caller is in a group, or it can't be told; nil: it can't
	Home func(uid uint32) string          // "" if it is not known; nil: none is
	All  func() bool                      // whether no user of the host is unknown to these functions; nil: some may be
}

// all says whether who is unknown here is unknown to the host.
func (u *Users) all() bool { return u.All != nil && u.All() }

// hostUsers reads the host's files. They are all there is unless the name service is more: a static program does not see
// LDAP's users.
func hostUsers() Users {
	return Users{
		Name: func(uid uint32) string {
			u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
			if err != nil {
				return ""
			}
			return u.Username
		},
		Uid: func(name string) (uint32, bool) {
			u, err := user.Lookup(name)
			if err != nil {
				return 0, false
			}
			n, err := strconv.ParseUint(u.Uid, 10, 32)
			return uint32(n), err == nil
		},
		Home: func(uid uint32) string {
			if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
				return u.HomeDir
			}
			return ""
		},
		In:  inGroup,
		All: sync.OnceValue(filesOnly),
	}
}

// inGroup goes by the groups of this process.
func inGroup(name string) bool {
	g, err := user.LookupGroup(name)
	if err != nil {
		return !filesOnly()
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil || gid == os.Getgid() {
		return true
	}
	gids, err := os.Getgroups()
	return err != nil || slices.Contains(gids, gid)
}

// sees says whether the caller is shown a partition without asking for all: neither hidden ones nor those of other groups,
// except to root.
func (w *World) sees(p *events.PartitionDef) bool {
	switch groups := p.GetAllowGroups(); {
	case w.Uid == 0:
		return true
	case p.GetHidden():
		return false
	default:
		return len(groups) == 0 || w.Users.In == nil || slices.ContainsFunc(groups, w.Users.In)
	}
}

// filesOnly reports whether the host's users are those of its files.
func filesOnly() bool {
	data, err := readSmall("/etc/nsswitch.conf")
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(data)) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "passwd:")
		if !ok {
			continue
		}
		for _, source := range strings.Fields(rest) {
			if source != "files" && source != "systemd" && source != "compat" {
				return false
			}
		}
	}
	return true
}

// user is the caller's name. Whom the host's files do not know, the agent is asked for: it asks the name service too.
func (w *World) user() string {
	if name := w.Users.Name(w.Uid); name != "" {
		return name
	}
	if c, err := wire.Dial(w.State); err == nil {
		defer c.Close()
		if resp, err := c.Call(&wire.Request{What: &wire.Request_Hello{Hello: &wire.Hello{}}}); err == nil {
			return resp.GetWelcome().GetUser()
		}
	}
	return strconv.FormatUint(uint64(w.Uid), 10)
}

// unknown returns the first of the users, by name or number, that the host is certain not to have.
func (w *World) unknown(users []string) string {
	for _, u := range users {
		if _, err := strconv.ParseUint(u, 10, 32); err == nil || !w.Users.all() {
			continue
		}
		if _, ok := w.Users.Uid(u); !ok {
			return u
		}
	}
	return ""
}

// names turns users given by number into names where the host knows them, and complains of names that nobody has.
func (w *World) names(command string, users []string) []string {
	out := make([]string, len(users))
	for i, u := range users {
		out[i] = u
		if n, err := strconv.ParseUint(u, 10, 32); err == nil {
			if name := w.Users.Name(uint32(n)); name != "" {
				out[i] = name
			}
		} else if w.unknown([]string{u}) != "" {
			fmt.Fprintf(w.Stderr, "%s: error: Invalid user: %s\n", command, u)
		}
	}
	return out
}

// number is a user's number as text; the name itself where nobody has it.
func (w *World) number(user string) string {
	if n, ok := w.Users.Uid(user); ok {
		return strconv.FormatUint(uint64(n), 10)
	}
	return user
}
