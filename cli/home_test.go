package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"stint/cli/site"
)

// Whoever may not work on a cluster's files is told whose they are and what to do.
func TestMine(t *testing.T) {
	dir := t.TempDir()
	owner := os.Geteuid()
	who := "only root"
	if owner != 0 {
		who = "only they or root"
	}
	for _, test := range []struct {
		dir, command string
		uid          int
		want         string // in the sentence, "": none
	}{
		{dir, "up", owner, ""},
		{dir, "down", 0, ""},
		{filepath.Join(dir, "none"), "up", owner + 1, ""},
		{dir, "up", owner + 4242, dir + " belongs to " + userName(owner) + ", so " + who + " can run a cluster from it; name a folder of your own with --dir"},
		{dir, "replay", owner + 4242, "the cluster in " + dir + " belongs to " + userName(owner) + ", so " + who + " can use `stint replay` on it"},
	} {
		err := mine(test.dir, test.command, test.uid)
		if got := text(err); got != test.want {
			t.Errorf("%s by %d: %q, want %q", test.command, test.uid, got, test.want)
		}
	}
	if got := userName(4_242_424); got != "user 4242424" {
		t.Errorf("a user without a name is %q", got)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// On a disk that is too small nothing is made, and the sentence has the folder and both figures.
func TestRoom(t *testing.T) {
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("mounting a small tmpfs: %v", err)
	}
	defer unix.Unmount(small, unix.MNT_DETACH)
	dir := filepath.Join(small, "stint")
	want := small + " has 8 MiB free, and a cluster in " + dir + " needs 64 MiB to start: make room there, or name a folder on another disk with --dir"
	if got := text(startable(site.Dir(dir))); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if entries, err := os.ReadDir(small); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

// Who looks at a folder without a cluster, or at another's, is not told the one instead of the other.
func TestStatusHead(t *testing.T) {
	for _, test := range []struct {
		s    *status
		want string
	}{
		{&status{Dir: "/d"}, "There is no cluster in /d; `stint up` makes one.\n"},
		{&status{Dir: "/d", foreign: true}, "What is in /d is another user's, and no agent there serves you.\n"},
		{&status{Dir: "/d", Cluster: "c", foreign: true, Agent: &agentStatus{}}, "Cluster c in /d\n"},
	} {
		if got := test.s.text(); !strings.HasPrefix(got, test.want) {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
