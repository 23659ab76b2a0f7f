package agent

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Identity is a user as the host's name service knows them. A user without a name goes by their number.
type Identity struct {
	User, Group string
	Uid, Gid    uint32
	Groups      []uint32 // all, the primary one included, ascending
	GroupNames  []string // of those that have a name, ascending
	Home, Shell string
}

// Names resolves users. Local files are read first; whom they do not know is asked for with getent and id, since a
// static program sees no LDAP, with a limit on the time that may take. Answers are kept for a while, also when the
// name service has stopped answering.
type Names struct {
	ttl, limit time.Duration
	now        func() time.Time
	lookup     func(ctx context.Context, uid, gid uint32) (Identity, bool)

	mu   sync.Mutex
	kept map[uint32]*kept
}

type kept struct {
	mu    sync.Mutex // held while it is asked for: others wait for the same answer
	who   Identity
	known bool
	at    time.Time
}

// NewNames returns the host's names: kept for a minute, asked for within 5 s.
func NewNames() *Names {
	return &Names{ttl: time.Minute, limit: 5 * time.Second, now: time.Now, lookup: lookup, kept: map[uint32]*kept{}}
}

// User returns who a user id is. gid is the group their process has, for users nobody knows.
func (n *Names) User(ctx context.Context, uid, gid uint32) Identity {
	n.mu.Lock()
	k := n.kept[uid]
	if k == nil {
		k = new(kept)
		n.kept[uid] = k
	}
	n.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at.IsZero() || n.now().Sub(k.at) > n.ttl {
		ask, cancel := context.WithTimeout(ctx, n.limit)
		who, ok := n.lookup(ask, uid, gid)
		cancel()
		switch {
		case ok:
			k.who, k.known, k.at = who, true, n.now()
		case k.known: // the name service fails: what it said before holds for another while
			k.at = n.now()
		default:
			text := strconv.FormatUint(uint64(uid), 10)
			k.who = Identity{User: text, Group: strconv.FormatUint(uint64(gid), 10), Uid: uid, Gid: gid, Groups: []uint32{gid}, Home: "/", Shell: "/bin/sh"}
			k.at = n.now().Add(10*time.Second - n.ttl) // ask again soon
		}
	}
	return k.who
}

// lookup asks the files, then the name service.
func lookup(ctx context.Context, uid, gid uint32) (Identity, bool) {
	who, ok := local(uid)
	if !ok {
		who, ok = getent(ctx, uid)
	}
	if !ok {
		return Identity{}, false
	}
	groups, ok := groupsOf(ctx, who)
	if !ok {
		return Identity{}, false
	}
	who.Groups = groups
	for _, g := range groups {
		name := groupName(ctx, g)
		if name == "" {
			if g == who.Gid {
				who.Group = strconv.FormatUint(uint64(g), 10)
			}
			continue
		}
		if g == who.Gid {
			who.Group = name
		}
		who.GroupNames = append(who.GroupNames, name)
	}
	slices.Sort(who.GroupNames)
	return who, true
}

func local(uid uint32) (Identity, bool) {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return Identity{}, false
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return Identity{}, false
	}
	return Identity{User: u.Username, Uid: uid, Gid: uint32(gid), Home: u.HomeDir}, true
}

// getent asks for a user's line: name:x:uid:gid:gecos:home:shell.
func getent(ctx context.Context, uid uint32) (Identity, bool) {
	line, ok := run(ctx, "getent", "passwd", strconv.FormatUint(uint64(uid), 10))
	if !ok {
		return Identity{}, false
	}
	f := strings.Split(strings.SplitN(line, "\n", 2)[0], ":")
	if len(f) < 7 {
		return Identity{}, false
	}
	gid, err := strconv.ParseUint(f[3], 10, 32)
	if err != nil || f[0] == "" {
		return Identity{}, false
	}
	return Identity{User: f[0], Uid: uid, Gid: uint32(gid), Home: f[5], Shell: f[6]}, true
}

// groupsOf returns a user's groups: from the files where they are all there is, else from id.
func groupsOf(ctx context.Context, who Identity) ([]uint32, bool) {
	var texts []string
	if filesOnly() {
		u := &user.User{Uid: strconv.FormatUint(uint64(who.Uid), 10), Gid: strconv.FormatUint(uint64(who.Gid), 10), Username: who.User}
		ids, err := u.GroupIds()
		if err != nil {
			return []uint32{who.Gid}, true // no group file: the primary group is all there is
		}
		texts = ids
	} else {
		line, ok := run(ctx, "id", "-G", "--", who.User)
		if !ok {
			return nil, false
		}
		texts = strings.Fields(line)
	}
	groups := []uint32{who.Gid}
	for _, t := range texts {
		g, err := strconv.ParseUint(t, 10, 32)
		if err == nil {
			groups = append(groups, uint32(g))
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups), true
}

// number returns the number of a user or group (database passwd or group) that is given by name or by number.
func (n *Names) number(ctx context.Context, database, name string) (uint32, bool) {
	if id, err := strconv.ParseUint(name, 10, 32); err == nil && id < 1<<32-1 {
		return uint32(id), true
	}
	ctx, cancel := context.WithTimeout(ctx, n.limit)
	defer cancel()
	text := ""
	if database == "passwd" {
		if u, err := user.Lookup(name); err == nil {
			text = u.Uid
		}
	} else if g, err := user.LookupGroup(name); err == nil {
		text = g.Gid
	}
	if text == "" {
		line, _ := run(ctx, "getent", database, "--", name)
		if f := strings.Split(strings.SplitN(line, "\n", 2)[0], ":"); len(f) > 2 && f[0] == name {
			text = f[2]
		}
	}
	id, err := strconv.ParseUint(text, 10, 32)
	return uint32(id), err == nil
}

func groupName(ctx context.Context, gid uint32) string {
	text := strconv.FormatUint(uint64(gid), 10)
	if g, err := user.LookupGroupId(text); err == nil {
		return g.Name
	}
	if filesOnly() {
		return ""
	}
	line, _ := run(ctx, "getent", "group", text)
	name, _, _ := strings.Cut(line, ":")
	return name
}

// filesOnly reports whether the host's groups come from its files alone.
func filesOnly() bool {
	data, err := os.ReadFile("/etc/nsswitch.conf")
	if err != nil {
		return true
	}
	for line := range bytes.Lines(data) {
		key, rest, ok := strings.Cut(string(line), ":")
		if !ok || strings.TrimSpace(key) != "group" {
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

func run(ctx context.Context, name string, args ...string) (string, bool) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C"}
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err == nil
}
