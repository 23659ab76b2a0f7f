package cgroup

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Found is the group of a job somewhere on this host, whoever made it.
type Found struct {
	Dirs  []string // in each hierarchy that has it, sorted
	Under string   // the directory that the node's tree is in
	Node  string   // as in Config
	Job   uint64
	PIDs  []int // of all processes in it, sorted
}

// Find looks for the groups of jobs in the whole of this host's control groups, in the layout of a Tree. It changes nothing, and what vanishes while it looks is left out.
func (h Host) Find() ([]Found, error) {
	type key struct {
		under, node string
		job         uint64
	}
	found := map[key]*Found{}
	var errs []error
	for _, y := range h.hierarchies {
		errs = append(errs, filepath.WalkDir(y.mount, func(dir string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil // gone, or not ours to see
			}
			node, is := treeOf(filepath.Base(dir))
			if !is {
				return nil
			}
			rel, _ := filepath.Rel(y.mount, filepath.Dir(dir))
			// A hierarchy may put the tree below the group of whoever opened it, and another not: the last name tells clusters apart.
			under := filepath.Base(rel)
			err = eachJob(dir, func(_ int, job uint64, at string) error {
				f := found[key{under, node, job}]
				if f == nil {
					f = &Found{Under: under, Node: node, Job: job}
					found[key{under, node, job}] = f
				}
				f.Dirs = append(f.Dirs, at)
				f.PIDs = append(f.PIDs, inside(at)...)
				return nil
			})
			if err != nil {
				return err
			}
			return fs.SkipDir
		}))
	}
	out := []Found{}
	for _, f := range found {
		slices.Sort(f.Dirs)
		slices.Sort(f.PIDs)
		f.Dirs, f.PIDs = slices.Compact(f.Dirs), slices.Compact(f.PIDs)
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b Found) int { return strings.Compare(a.Dirs[0], b.Dirs[0]) })
	return out, errors.Join(errs...)
}

// treeOf reads the name of a tree's top: of which node it is.
func treeOf(name string) (node string, is bool) {
	if node, is = strings.CutSuffix(name, "slurmstepd.scope"); is {
		return strings.TrimSuffix(node, "_"), node == "" || strings.HasSuffix(node, "_")
	}
	if name == "slurm" {
		return "", true
	}
	return strings.CutPrefix(name, "slurm_")
}

// inside are the processes in a group and all groups below it.
func inside(dir string) []int {
	pids := map[int]bool{}
	_ = filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			list, _ := readPIDs(filepath.Join(at, "cgroup.procs")) // it may be gone by now
			for _, pid := range list {
				pids[pid] = true
			}
		}
		return nil
	})
	return slices.Collect(maps.Keys(pids))
}
