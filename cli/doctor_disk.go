package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"stint/cli/site"
	"stint/events/bus"
)

// leastInodes is how many files must be possible: each job makes a few while it runs.
const leastInodes = 10_000

// parts are the folders of a cluster that something is written to, with what is.
func parts(dir site.Dir) []part {
	return []part{
		{use: "the log", path: dir.Bus()}, {use: "accounting", path: dir.Ledger()}, {use: "snapshots", path: dir.Controller()}, {use: "journals", path: filepath.Join(string(dir), "node")}, {use: "scripts", path: filepath.Join(string(dir), "spool")}, {use: "logs", path: dir.Logs()},
	}
}

// part is a folder of the cluster, or of one of its nodes.
type part struct{ use, path, node string }

func (p part) String() string {
	if p.node != "" {
		return p.use + " of " + p.node
	}
	return p.use
}

// ofNodes are the folders of the nodes that have their executors on this host, listed once: two for each.
func (s *scene) ofNodes() []part {
	s.listed.Do(func() {
		for _, n := range nodesOf(s.dir) {
			s.folders = append(s.folders, part{"journals", s.dir.Node(n), n}, part{"scripts", s.dir.Spool(n), n})
		}
	})
	return s.folders
}

// checkDisk looks at every disk that something of the cluster is written to.
func checkDisk(r *report, s *scene) {
	type disk struct {
		at   string
		uses []string
	}
	byDevice := map[uint64]*disk{}
	var disks []*disk
	for _, f := range slices.Concat(parts(s.dir), s.ofNodes()) {
		r.on("asking how much is free in %s (%s)", f.path, f)
		if f.node != "" && (deviceOf(f.path) == 0 || byDevice[deviceOf(f.path)] != nil) {
			continue // a node's own, on a disk that was looked at
		}
		at, _, err := freeAt(f.path)
		var st unix.Stat_t
		if err == nil {
			err = unix.Stat(at, &st)
		}
		if err != nil {
			r.add(warning, "disk", "", "%s (%s): %v", f.path, f, err)
			continue
		}
		k := byDevice[uint64(st.Dev)]
		if k == nil {
			if strings.HasPrefix(at, string(s.dir)) && uint64(st.Dev) == deviceOf(string(s.dir)) {
				at = string(s.dir)
			}
			k = &disk{at: at}
			byDevice[uint64(st.Dev)] = k
			disks = append(disks, k)
		}
		k.uses = append(k.uses, f.String())
	}
	for _, k := range disks {
		var fs unix.Statfs_t
		if err := unix.Statfs(k.at, &fs); err != nil {
			r.add(warning, "disk", "", "%s: %v", k.at, err)
			continue
		}
		judgeDisk(r, k.at, strings.Join(k.uses, ", "), fs.Bavail*uint64(fs.Bsize)>>20, fs.Files, fs.Ffree)
		judgeFilesystem(r, k.at, strings.Join(k.uses, ", "), int64(fs.Type))
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
func judgeDisk(r *report, at, uses string, mib, files, filesFree uint64) {
	const room = "make room there, or move the cluster with --dir"
	switch {
	case mib < leastDisk>>20:
		r.add(fault, "disk", room, "%s has %d MiB left for %s; a cluster needs %d MiB to start", at, mib, uses, leastDisk>>20)
	case mib < 256:
		r.add(fault, "disk", room, "%s has %d MiB left for %s", at, mib, uses)
	case mib < 2048:
		r.add(warning, "disk", room, "%s has %d MiB left for %s", at, mib, uses)
	default:
		r.add(well, "disk", "", "%s has %d MiB left for %s", at, mib, uses)
	}
	if files > 0 && filesFree < leastInodes {
		level := warning
		if filesFree < 100 {
			level = fault
		}
		r.add(level, "disk", "remove files there: df -i "+at, "%s can take only %d more files", at, filesFree)
	}
}

// judgeFilesystem says what is wrong with keeping a cluster on a kind of file system, by its number in statfs(2).
func judgeFilesystem(r *report, at, uses string, kind int64) {
	switch kind {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		r.add(warning, "disk", "move the cluster to a disk with --dir", "%s is kept in memory (tmpfs): %s is lost when the machine ends", at, uses)
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		r.add(warning, "disk", "move the cluster to a disk of this host with --dir", "%s is a disk of another host (NFS or SMB): slow for %s, and not safe for locks", at, uses)
	case unix.OVERLAYFS_SUPER_MAGIC:
		r.add(note, "disk", "mount a volume there if it is to outlive the container", "%s is the layer of a container (overlayfs): %s goes with it", at, uses)
	}
}

// checkFolders looks at the folders of the cluster: that they are there, are folders, are whose they ought to be, and that users
// can reach the agent.
func checkFolders(r *report, s *scene) {
	top := string(s.dir)
	r.on("looking at %s", top)
	info, err := os.Stat(top)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, lerr := os.Lstat(top); lerr == nil {
			r.add(fault, "folders", "readlink -f "+top, "%s is a link to what is not there", top)
		}
		return // no cluster: checkCluster says so
	case errors.Is(err, fs.ErrPermission):
		r.add(fault, "folders", "whose it is must do: chmod o+x "+shut(top), "you may not look into %s: %s may be entered by others only with that", top, shut(top))
		return
	case err != nil:
		r.add(fault, "folders", "ls -ld "+top, "%s: %v", top, plainErr(err))
		return
	case !info.IsDir():
		r.add(fault, "folders", "mv "+top+" away, or name a folder with --dir", "%s is no folder", top)
		return
	}
	owner, err := ownerOf(top)
	if err != nil {
		r.add(fault, "folders", "", "%v", err)
		return
	}
	if info.Mode().Perm()&0o022 != 0 && info.Mode()&os.ModeSticky == 0 {
		r.add(fault, "folders", "chmod go-w "+top, "others may write into %s, and so put files of theirs in the place of the cluster's", top)
	}
	if owner == 0 { // it serves everybody
		if at := shut(top); at != "" {
			r.add(fault, "folders", "chmod o+x "+at, "users cannot reach %s: others may not enter %s", filepath.Join(top, "agent.sock"), at)
		}
	}
	if uid := os.Geteuid(); uid != 0 && uid != owner {
		return // what is in there is not for us
	}
	if _, err := s.dir.Load(); errors.Is(err, fs.ErrNotExist) {
		return
	} else if err != nil {
		r.add(fault, "folders", "restore it from a backup; without one, `stint up` with the options of before makes it anew when it is moved away", "%v", err)
	}
	bad := 0
	for _, p := range append(parts(s.dir), part{use: "keys", path: s.dir.Keys()}) {
		r.on("looking at %s", p.path)
		if judgeFolder(r, p, owner) {
			bad++
		}
	}
	for _, p := range s.ofNodes() {
		if _, err := os.Stat(p.path); errors.Is(err, fs.ErrNotExist) {
			continue // checkWriting says so
		}
		r.on("looking at %s", p.path)
		if judgeFolder(r, p, owner) {
			bad++
		}
	}
	if c, err := s.dir.Load(); err == nil && c.Embedded && c.Log != "" {
		if at, _ := filepath.Glob(filepath.Join(s.dir.Bus(), "jetstream", "*", "streams", bus.EventsStream)); len(at) == 0 {
			r.add(fault, "folders", "put it back, and start the cluster; "+giveUp(s.dir), "%s has no log in it, and the cluster's was made %s: it was moved, emptied or replaced. No daemon goes on without", s.dir.Bus(), c.Log)
			bad++
		}
	}
	if bad == 0 {
		r.add(well, "folders", "", "of %s, who may use them", userName(owner))
	}
}

// shut is the first folder on the way to a path that others may not enter, "" if there is none.
func shut(path string) string {
	var way []string
	for at := path; ; at = filepath.Dir(at) {
		way = append(way, at)
		if at == filepath.Dir(at) {
			break
		}
	}
	for _, at := range slices.Backward(way) {
		if info, err := os.Stat(at); err != nil || info.Mode().Perm()&0o001 == 0 {
			return at
		}
	}
	return ""
}

// judgeFolder looks at one folder of a cluster and reports whether something is wrong with it.
func judgeFolder(r *report, p part, owner int) bool {
	info, err := os.Stat(p.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.add(fault, "folders", "`stint up` makes it anew, empty; if it had the cluster's data, restore that first", "%s (%s) is not there", p.path, p.use)
		return true
	case err != nil:
		r.add(fault, "folders", "ls -ld "+p.path, "%s (%s): %v", p.path, p.use, plainErr(err))
		return true
	case !info.IsDir():
		r.add(fault, "folders", "move it away", "%s (%s) is no folder", p.path, p.use)
		return true
	}
	bad := false
	if uid, err := ownerOf(p.path); err == nil && uid != owner {
		r.add(fault, "folders", fmt.Sprintf("chown -R %d %s", owner, p.path), "%s (%s) belongs to %s, and the cluster to %s", p.path, p.use, userName(uid), userName(owner))
		bad = true
	}
	mode := info.Mode().Perm()
	want := os.FileMode(0o700)
	if p.use == "scripts" {
		want = 0o711
	}
	switch {
	case mode&0o700 != 0o700:
		r.add(fault, "folders", fmt.Sprintf("chmod %o %s", want, p.path), "%s (%s) is closed to its owner (mode %04o)", p.path, p.use, mode)
		bad = true
	case mode&^want != 0 && p.use != "logs" && p.use != "journals":
		r.add(fault, "folders", fmt.Sprintf("chmod %o %s", want, p.path), "others may look into %s (%s)", p.path, p.use)
		bad = true
	case p.use == "scripts" && mode&0o011 != 0o011:
		r.add(fault, "folders", fmt.Sprintf("chmod %o %s", want, p.path), "users cannot enter %s, where their scripts are run from", p.path)
		bad = true
	}
	return bad
}

// checkKeys looks at who else may read what is the cluster's alone, and that the cluster may.
func checkKeys(r *report, s *scene) {
	entries, err := os.ReadDir(s.dir.Keys())
	if err != nil {
		return // no cluster, or not ours to read
	}
	bad := 0
	for _, e := range entries {
		path := filepath.Join(s.dir.Keys(), e.Name())
		info, err := os.Stat(path)
		switch {
		case err != nil:
			r.add(fault, "keys", "remove it, and let `stint up` make it anew", "%s: %v", path, plainErr(err))
		case info.Mode().Perm()&0o077 != 0:
			r.add(fault, "keys", "chmod 600 "+path, "others may read %s", e.Name())
		case info.Mode().Perm()&0o400 == 0 && os.Geteuid() != 0:
			r.add(fault, "keys", "chmod 600 "+path, "its owner may not read %s", e.Name())
		case info.Size() == 0 || info.Size() > 4096:
			r.add(fault, "keys", "remove it, and let `stint up` make it anew", "%s is no key: it has %d bytes", path, info.Size())
		default:
			continue
		}
		bad++
	}
	if bad == 0 && len(entries) > 0 {
		r.add(well, "keys", "", "%d, their owner's alone", len(entries))
	}
}

// Of a disk that takes longer than this for a write, the log says every submission and every start late.
const (
	slowSync = 50 * time.Millisecond
	deadSync = 500 * time.Millisecond
)

// checkWriting writes into each folder as the daemons do, and removes it again.
func checkWriting(r *report, s *scene) {
	owner, err := ownerOf(string(s.dir))
	if err != nil || os.Geteuid() != 0 && os.Geteuid() != owner {
		return
	}
	if _, err := s.dir.Load(); err != nil {
		return
	}
	running := map[string]bool{} // nodes whose supervisors run: they made their folders
	for _, p := range s.processes() {
		running[p.node] = running[p.node] || p.role == "supervisor"
	}
	var took []time.Duration
	bad := false
	for i, p := range slices.Concat(parts(s.dir), s.ofNodes()) {
		if _, err := os.Stat(p.path); err != nil {
			if p.node != "" && running[p.node] && errors.Is(err, fs.ErrNotExist) {
				r.add(fault, "writing", "mkdir -m 711 "+p.path+", then resume the node", "%s (%s) is not there: nothing starts on that node", p.path, p)
			}
			continue // else checkFolders says so, or the node was never started
		}
		times := 1
		if i == 0 {
			times = 5
		}
		for range times {
			r.on("writing into %s (%s): its disk does not answer", p.path, p)
			t, err := writeOnce(p.path)
			if err != nil {
				r.add(fault, "writing", "see that it is mounted for writing, has room (df -h, df -i, quota), and is not fixed (lsattr -d)", "nothing can be written into %s (%s): %v", p.path, p, plainErr(err))
				bad = true
				break
			}
			if i == 0 {
				took = append(took, t)
			}
		}
	}
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	judgeSync(r, s.dir.Bus(), took[len(took)/2], took[len(took)-1], bad)
}

// judgeSync says how fast a disk takes what must not be lost.
func judgeSync(r *report, at string, median, most time.Duration, bad bool) {
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
	switch {
	case median > deadSync:
		r.add(fault, "writing", "use a faster disk, or look at what else writes to it: iostat -x 1", "a write to disk in %s takes %s (at most %s): each submission waits that long", at, round(median), round(most))
	case median > slowSync:
		r.add(warning, "writing", "use a faster disk, or look at what else writes to it: iostat -x 1", "a write to disk in %s takes %s (at most %s)", at, round(median), round(most))
	case !bad:
		r.add(well, "writing", "", "all folders take it; to disk in %s, at most %s", round(median), round(most))
	}
}

// writeOnce writes a small file into a folder, to disk, and removes it.
func writeOnce(dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, ".stint-doctor-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	begun := time.Now()
	_, err = f.Write(make([]byte, 4096))
	err = errors.Join(err, f.Sync())
	took := time.Since(begun)
	return took, errors.Join(err, f.Close())
}

// nodesOf are the nodes that have their executors on this host; none where that cannot be read.
func nodesOf(dir site.Dir) []string {
	c, err := dir.Load()
	if err != nil {
		return nil
	}
	return c.Nodes
}
