package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"stint/cli/site"
	"stint/cli/wire"
)

// homeOf is dirOf for commands that make a cluster, or work on its files, rather than speak to one.
func homeOf(c *cli.Context) (site.Dir, error) {
	dir := c.String("dir")
	if dir == "" {
		dir = wire.HomeDir()
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return site.Dir(abs), nil
}

// ownHomeOf is homeOf for a command that needs the rights of whoever owns the cluster: to others it says so, before it has touched
// anything.
func ownHomeOf(c *cli.Context) (site.Dir, error) {
	dir, err := homeOf(c)
	if err != nil {
		return "", err
	}
	return dir, mine(string(dir), c.Command.Name, os.Geteuid())
}

// mine says why a user cannot work on the files in dir; nil if they can, or if dir is not there.
func mine(dir, command string, uid int) error {
	owner, err := ownerOf(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("you may not look into %s: run `stint %s` as whoever owns the cluster there, or name another folder with --dir", dir, command)
	case err != nil:
		return err
	case uid == 0 || uid == owner:
		return nil
	}
	who := "only root"
	if owner != 0 {
		who = "only they or root"
	}
	if command == "up" {
		return fmt.Errorf("%s belongs to %s, so %s can run a cluster from it; name a folder of your own with --dir", dir, userName(owner), who)
	}
	return fmt.Errorf("the cluster in %s belongs to %s, so %s can use `stint %s` on it", dir, userName(owner), who, command)
}

// ownerOf returns the number of the user a file or directory belongs to.
func ownerOf(path string) (int, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return int(info.Sys().(*syscall.Stat_t).Uid), nil
}

// userName is a user as people name them.
func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return fmt.Sprintf("user %d", uid)
}

// leastDisk is how many bytes must be free for a cluster to start: the bus, the ledger and the journals write before the first job.
const leastDisk = 64 << 20

// roomFor says what a folder's disk lacks for a cluster to start there; nil if it lacks nothing. The folder need not be there yet.
func roomFor(dir string) error {
	at, free, err := freeAt(dir)
	if err != nil {
		return err
	}
	if free < leastDisk {
		return fmt.Errorf("%s has %d MiB free, and a cluster in %s needs %d MiB to start: make room there, or name a folder on another disk with --dir", at, free>>20, dir, leastDisk>>20)
	}
	return nil
}

// freeAt returns how many bytes whoever asks may still write at a path, and the part of the path that is there.
func freeAt(path string) (at string, free uint64, err error) {
	for at = path; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); err == nil || at == filepath.Dir(at) {
			break
		}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(at, &fs); err != nil {
		return at, 0, fmt.Errorf("asking how much is free in %s: %w", at, err)
	}
	return at, fs.Bavail * uint64(fs.Bsize), nil
}

// startable says why no cluster can be started from dir now, before anything is made.
func startable(dir site.Dir) error {
	switch p, err := dir.LoadProcesses(); {
	case p != nil:
		return fmt.Errorf("a cluster already runs from %s (process %d); `stint status` says how it is, `stint down` stops it", dir, p.Pid)
	case err != nil:
		return err
	}
	return roomFor(string(dir))
}
