package cli

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"stint/cli/site"
)

// leastInodes is how many files must be possible: each job makes a few while it runs.
const leastInodes = 10_000

// checkDisk looks at every disk that something of the cluster is written to.
func checkDisk(d *diagnosis, dir site.Dir) {
	type disk struct {
		at   string
		uses []string
	}
	byDevice := map[uint64]*disk{}
	var disks []*disk
	for _, f := range []struct{ use, path string }{
		{"the log", dir.Bus()}, {"accounting", dir.Ledger()}, {"snapshots", dir.Controller()}, {"journals", filepath.Join(string(dir), "node")}, {"scripts", filepath.Join(string(dir), "spool")},
	} {
		at, _, err := freeAt(f.path)
		var st unix.Stat_t
		if err == nil {
			err = unix.Stat(at, &st)
		}
		if err != nil {
			d.add("warning", "disk", "", "%s (%s): %v", f.path, f.use, err)
			continue
		}
		k := byDevice[uint64(st.Dev)]
		if k == nil {
			if strings.HasPrefix(at, string(dir)) && st.Dev == deviceOf(string(dir)) {
				at = string(dir)
			}
			k = &disk{at: at}
			byDevice[uint64(st.Dev)] = k
			disks = append(disks, k)
		}
		k.uses = append(k.uses, f.use)
	}
	for _, k := range disks {
		var fs unix.Statfs_t
		if err := unix.Statfs(k.at, &fs); err != nil {
			d.add("warning", "disk", "", "%s: %v", k.at, err)
			continue
		}
		judgeDisk(d, k.at, strings.Join(k.uses, ", "), fs.Bavail*uint64(fs.Bsize)>>20, fs.Files, fs.Ffree)
	}
}

func deviceOf(path string) uint64 {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	return uint64(st.Dev)
}

// judgeDisk says how a disk is that has so many MiB left, and so many of its files (0: the file system does not count them).
func judgeDisk(d *diagnosis, at, uses string, mib, files, filesFree uint64) {
	const room = "make room there, or move the cluster with --dir"
	switch {
	case mib < leastDisk>>20:
		d.add("broken", "disk", room, "%s has %d MiB left for %s; a cluster needs %d MiB to start", at, mib, uses, leastDisk>>20)
	case mib < 256:
		d.add("broken", "disk", room, "%s has %d MiB left for %s", at, mib, uses)
	case mib < 2048:
		d.add("warning", "disk", room, "%s has %d MiB left for %s", at, mib, uses)
	default:
		d.add("ok", "disk", "", "%s has %d MiB left for %s", at, mib, uses)
	}
	if files > 0 && filesFree < leastInodes {
		d.add("warning", "disk", "remove files there", "%s can take only %d more files", at, filesFree)
	}
}

// checkKeys looks at who else may read what is the cluster's alone.
func checkKeys(d *diagnosis, dir site.Dir) {
	if info, err := os.Stat(string(dir)); err == nil && info.Mode().Perm()&0o022 != 0 && info.Mode()&os.ModeSticky == 0 {
		d.add("broken", "folders", "chmod go-w "+string(dir), "others may write into %s, and so put files of theirs in the place of the cluster's", dir)
	}
	for _, path := range []string{dir.Keys(), dir.Bus(), dir.Controller(), dir.Ledger()} {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
			d.add("broken", "folders", "chmod 700 "+path, "others may look into %s", path)
		}
	}
	entries, err := os.ReadDir(dir.Keys())
	if err != nil {
		return // no cluster, or not ours to read
	}
	bad := 0
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().Perm()&0o077 != 0 {
			bad++
			d.add("broken", "keys", "chmod 600 "+filepath.Join(dir.Keys(), e.Name()), "others may read %s", e.Name())
		}
	}
	if bad == 0 {
		d.add("ok", "keys", "", "%d, their owner's alone", len(entries))
	}
}
