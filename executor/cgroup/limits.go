package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits bound a group. A zero field sets nothing: the group shares what its parent has.
type Limits struct {
	CPUs        []int   // logical CPUs its processes may run on
	Mems        []int   // NUMA nodes it may take memory from
	MemoryBytes uint64  // most memory, page cache included
	SwapBytes   *uint64 // most swap beyond that; a pointer to 0 allows none
	PIDs        uint64  // most processes and threads
	// DenyDevices cannot be opened unless they are also in AllowDevices. Give all devices that are handed out by
	// allocation (all GPUs of the node) here, and those of the job there. Every other device stays as it is.
	DenyDevices  []Device
	AllowDevices []Device
}

// Device is a device file's type and number.
type Device struct {
	Type  byte // 'c' or 'b'
	Major uint32
	Minor uint32
}

func (d Device) String() string { return fmt.Sprintf("%c %d:%d", d.Type, d.Major, d.Minor) }

// denied are the devices to deny, sorted, without duplicates.
func (l *Limits) denied() []Device {
	var out []Device
	for _, d := range l.DenyDevices {
		if !slices.Contains(l.AllowDevices, d) {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b Device) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(out)
}

// needs says whether a hierarchy that exists for one kind of limit is wanted.
func (l *Limits) needs(controller string, g *guard) bool {
	switch controller {
	case "cpuset":
		return len(l.CPUs) > 0 || len(l.Mems) > 0
	case "pids":
		return l.PIDs > 0
	case "devices":
		return g.how == byController && len(l.DenyDevices) > 0
	}
	return true
}

// Update changes the limits of a group that exists; zero fields leave what is set. Memory below what is in use is
// reclaimed or refused by the kernel (EBUSY on version 1).
func (g *Group) Update(l Limits) error {
	if !g.Active() {
		return ErrNoGroups
	}
	for i := range g.tree.roots {
		r := &g.tree.roots[i]
		if r.lazy == "" || !l.needs(r.lazy, &g.tree.guard) {
			continue
		}
		if _, ok := g.dir(r.lazy); ok {
			continue
		}
		return fmt.Errorf("changing the limits of control group %s: it was made without %s and its processes are not in one", g.Name(), r.lazy)
	}
	if err := g.apply(l); err != nil {
		return fmt.Errorf("changing the limits of control group %s: %w", g.Name(), err)
	}
	return nil
}

// apply writes the limits to the directories that exist; what the host has no controller for is a Gap of the tree.
func (g *Group) apply(l Limits) error {
	if d, ok := g.dir("cpuset"); ok {
		if err := setList(d, "cpuset.cpus", l.CPUs); err != nil {
			return err
		}
		if err := setList(d, "cpuset.mems", l.Mems); err != nil {
			return err
		}
	}
	if d, ok := g.dir("memory"); ok {
		limit := limitV1
		if d.v2 {
			limit = limitV2
		}
		if err := limit(d.path, l); err != nil {
			return err
		}
	}
	if d, ok := g.dir("pids"); ok && l.PIDs > 0 {
		if err := writeFile(filepath.Join(d.path, "pids.max"), strconv.FormatUint(l.PIDs, 10)); err != nil {
			return err
		}
	}
	if len(l.DenyDevices) > 0 {
		return g.tree.guard.set(g, l)
	}
	return nil
}

// setList sets a cpuset. Version 1 refuses (EBUSY) to take from a group what a group below it has: then the steps that
// had all that the job had go first.
func setList(d groupDir, file string, ids []int) error {
	if len(ids) == 0 {
		return nil
	}
	path, value := filepath.Join(d.path, file), formatList(ids)
	err := writeFile(path, value)
	if d.v2 || !errors.Is(err, unix.EBUSY) {
		return err
	}
	before, err := readFile(path)
	if err != nil {
		return err
	}
	if err := writeFile(path, before+","+value); err != nil {
		return err
	}
	var steps []error
	err = eachStep(d.path, func(step string) {
		child := filepath.Join(d.path, "step_"+step, file)
		if have, err := readFile(child); err == nil && have == before {
			steps = append(steps, writeFile(child, value))
		}
	})
	return errors.Join(err, errors.Join(steps...), writeFile(path, value))
}

// limitV1 sets memory, and memory with swap, which may never be the lower of the two on the way.
func limitV1(dir string, l Limits) error {
	memory, both := filepath.Join(dir, "memory.limit_in_bytes"), filepath.Join(dir, "memory.memsw.limit_in_bytes")
	swap := l.SwapBytes != nil && exists(both)
	if l.MemoryBytes > 0 {
		err := writeFile(memory, strconv.FormatUint(l.MemoryBytes, 10))
		if errors.Is(err, unix.EINVAL) && exists(both) {
			// More than the present limit of both together.
			if err = writeFile(both, "-1"); err == nil {
				err = writeFile(memory, strconv.FormatUint(l.MemoryBytes, 10))
			}
		}
		if err != nil {
			return err
		}
	}
	if !swap {
		return nil
	}
	have := l.MemoryBytes
	if have == 0 {
		var err error
		if have, err = readUint(memory); err != nil {
			return err
		}
	}
	return writeFile(both, strconv.FormatUint(have+*l.SwapBytes, 10))
}

func limitV2(dir string, l Limits) error {
	if l.MemoryBytes > 0 {
		if err := writeFile(filepath.Join(dir, "memory.max"), strconv.FormatUint(l.MemoryBytes, 10)); err != nil {
			return err
		}
	}
	swap := filepath.Join(dir, "memory.swap.max")
	if l.SwapBytes != nil && exists(swap) {
		return writeFile(swap, strconv.FormatUint(*l.SwapBytes, 10))
	}
	return nil
}

// formatList writes numbers in the kernel's list format: "0-3,8".
func formatList(ids []int) string {
	s := slices.Clone(ids)
	slices.Sort(s)
	s = slices.Compact(s)
	var b strings.Builder
	for i := 0; i < len(s); {
		j := i
		for j+1 < len(s) && s[j+1] == s[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(s[i]))
		if j > i {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(s[j]))
		}
		i = j + 1
	}
	return b.String()
}
