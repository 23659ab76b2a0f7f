package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// guard denies devices: by a program attached to the version 2 group where the kernel takes one, which costs one system
// call a job, else by the version 1 controller.
type guard struct {
	how guardKind

	mu       sync.Mutex
	programs map[string]*ebpf.Program // by the devices they deny; at most programsKept
}

// programsKept bounds the filters that are held for the next group that denies the same. One that is attached stays in the kernel
// without being held.
const programsKept = 64

type guardKind int

const (
	byNothing guardKind = iota
	byProgram
	byController
)

// open finds out which way works, and notes a gap if none does.
func (g *guard) open(t *Tree) {
	g.programs = map[string]*ebpf.Program{}
	why := "this host has no version 2 hierarchy and no devices controller"
	if t.roots[0].v2 {
		if _, err := g.program(nil); err != nil {
			why = "the kernel takes no device filter: " + err.Error()
		} else {
			g.how = byProgram
			return
		}
	}
	if t.host.Mode != V2 && t.host.find("devices") != nil {
		g.how = byController
		return
	}
	t.gaps = append(t.gaps, Gap{gapDevices, why})
}

// program gives the filter that denies these devices and allows all others. The kernel holds one copy however many
// groups it is attached to. The caller holds g.mu for as long as it uses it.
func (g *guard) program(denied []Device) (*ebpf.Program, error) {
	key := fmt.Sprint(denied)
	if p, ok := g.programs[key]; ok {
		return p, nil
	}
	// The filter is asked from the last rule to the first; the first that matches decides. Every rule is for all kinds
	// of access: a rule for fewer would match when any of them is asked for.
	all := int64(-1)
	rules := []specs.LinuxDeviceCgroup{{Allow: true, Type: "a", Major: &all, Minor: &all, Access: "rwm"}}
	for _, d := range denied {
		major, minor := int64(d.Major), int64(d.Minor)
		rules = append(rules, specs.LinuxDeviceCgroup{Type: string(d.Type), Major: &major, Minor: &minor, Access: "rwm"})
	}
	insts, license, err := cgroup2.DeviceFilter(rules)
	if err != nil {
		return nil, fmt.Errorf("writing the device filter: %w", err)
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "stint_devices", Type: ebpf.CGroupDevice, Instructions: insts, License: license})
	if err != nil {
		return nil, fmt.Errorf("loading the device filter: %w", err)
	}
	for k, old := range g.programs { // any of them: a node has far fewer sets of devices to deny than this, unless it is changed all the time
		if len(g.programs) < programsKept {
			break
		}
		old.Close()
		delete(g.programs, k)
	}
	g.programs[key] = p
	return p, nil
}

// set makes a group deny exactly what the limits say.
func (g *guard) set(group *Group, l Limits) error {
	for _, d := range append(l.DenyDevices, l.AllowDevices...) {
		if d.Type != 'c' && d.Type != 'b' {
			return fmt.Errorf("device %d:%d is neither a character nor a block device", d.Major, d.Minor)
		}
	}
	switch g.how {
	case byProgram:
		return g.attach(group, l.denied())
	case byController:
		return g.write(group, l)
	}
	return nil
}

// attach puts the filter in place of the one that is there, if any. It keeps no descriptor of the group: one would hold what the
// kernel has of it long after it is removed.
func (g *guard) attach(group *Group, denied []Device) error {
	fd, done, err := group.borrow()
	if err != nil {
		return err
	}
	defer done()
	g.mu.Lock()
	defer g.mu.Unlock()
	p, err := g.program(denied)
	if err != nil {
		return err
	}
	o := link.RawAttachProgramOptions{Target: fd, Program: p, Attach: ebpf.AttachCGroupDevice, Flags: unix.BPF_F_ALLOW_MULTI}
	have, err := link.QueryPrograms(link.QueryOptions{Target: fd, Attach: ebpf.AttachCGroupDevice})
	if err != nil {
		return fmt.Errorf("looking for the device filter of %s: %w", group.Name(), err)
	}
	if len(have.Programs) > 0 {
		old, err := ebpf.NewProgramFromID(have.Programs[0].ID)
		if err != nil {
			return fmt.Errorf("taking hold of the device filter of %s: %w", group.Name(), err)
		}
		defer old.Close()
		o.Anchor = link.ReplaceProgram(old)
	}
	if err := link.RawAttachProgram(o); err != nil {
		return fmt.Errorf("attaching the device filter to %s: %w", group.Name(), err)
	}
	return nil
}

// write gives the version 1 controller what it may, then what it may not: a new group has all that its parent has, and
// none can get what its parent has not (EPERM), which is no more of a failure here than with a filter.
func (g *guard) write(group *Group, l Limits) error {
	d, ok := group.dir("devices")
	if !ok {
		return nil
	}
	for _, a := range l.AllowDevices {
		if err := writeFile(filepath.Join(d.path, "devices.allow"), a.String()+" rwm"); err != nil && !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	for _, x := range l.denied() {
		if err := writeFile(filepath.Join(d.path, "devices.deny"), x.String()+" rwm"); err != nil {
			return err
		}
	}
	return nil
}

func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for k, p := range g.programs {
		p.Close()
		delete(g.programs, k)
	}
}
