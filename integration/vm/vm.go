// Package vm runs a static test binary in a small virtual machine that has control groups version 2 only, whatever the
// host has. It needs qemu and a Linux kernel (see fetch), no root and no hardware virtualisation.
package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Machine says what to boot.
type Machine struct {
	Kernel    string   // path of a bzImage
	Modules   []string // paths of its modules that are loaded first
	CPUs      int
	MemoryMiB int
	Systemd   bool // the host's systemd is the first process, and the program its only service, vm.service

	Files map[string]string // more files, by their absolute names there: paths on the host
	Env   []string          // more environment of the program
}

// ErrMissing wraps what is not installed.
var ErrMissing = errors.New("not installed")

// Find looks for qemu and a kernel: $STINT_VM_KERNEL, what fetch left in the cache, or a cloud kernel in /boot.
func Find() (Machine, error) {
	m := Machine{CPUs: 2, MemoryMiB: 1024}
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		return m, fmt.Errorf("qemu-system-x86_64 (Debian: qemu-system-x86) is %w", ErrMissing)
	}
	if k := os.Getenv("STINT_VM_KERNEL"); k != "" {
		if _, err := os.Stat(k); err != nil {
			return m, fmt.Errorf("STINT_VM_KERNEL: %w", err)
		}
		m.Kernel = k
		return m, nil
	}
	for _, pattern := range []string{filepath.Join(CacheDir(), "vmlinuz"), "/boot/vmlinuz-*cloud-amd64"} {
		hits, err := filepath.Glob(pattern)
		if err == nil && len(hits) > 0 {
			m.Kernel = hits[len(hits)-1]
			for _, module := range []string{filepath.Join(filepath.Dir(m.Kernel), "loop.ko"), filepath.Join("/lib/modules", strings.TrimPrefix(filepath.Base(m.Kernel), "vmlinuz-"), "kernel/drivers/block/loop.ko")} {
				if _, err := os.Stat(module); err == nil {
					m.Modules = []string{module}
					break
				}
			}
			return m, nil
		}
	}
	return m, fmt.Errorf("a kernel for virtual machines is %w: integration/vm/fetch gets Debian's", ErrMissing)
}

// CacheDir is where fetch puts the kernel.
func CacheDir() string {
	if d := os.Getenv("XDG_CACHE_HOME"); d != "" {
		return filepath.Join(d, "stint-vm")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/root"
	}
	return filepath.Join(home, ".cache", "stint-vm")
}

// Run boots the machine with the static binary program and these arguments, as root, copies its output to out as it
// comes, and gives its exit status. dir is for temporary files. An error means that the machine did not get as far.
func (m Machine) Run(ctx context.Context, dir, program string, args []string, out io.Writer) (int, error) {
	fail := func(what string, err error) (int, error) {
		return -1, fmt.Errorf("running %s in a virtual machine: %s: %w", filepath.Base(program), what, err)
	}
	first := filepath.Join(dir, "init")
	build := exec.CommandContext(ctx, "go", "build", "-o", first, "stint/integration/vm/init")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return fail("building its first process", fmt.Errorf("%w\n%s", err, text))
	}
	more := maps.Clone(m.Files)
	if more == nil {
		more = map[string]string{}
	}
	for i, module := range m.Modules {
		more[fmt.Sprintf("/modules/%d.ko", i)] = module
	}
	words := "console=ttyS0 quiet panic=-1 cgroup_no_v1=all mitigations=off"
	if m.Systemd {
		if _, err := os.Stat(systemd); err != nil {
			return fail("collecting systemd", fmt.Errorf("systemd is %w: %w", ErrMissing, err))
		}
		files, err := WithLibraries(ctx, systemd)
		if err != nil {
			return fail("collecting systemd", err)
		}
		maps.Copy(more, files)
		words += " rdinit=" + systemd + " systemd.unit=vm.service systemd.show_status=0 systemd.log_target=null"
	}
	initrd := filepath.Join(dir, "initrd")
	if err := writeInitrd(initrd, first, program, args, m.Env, more, m.Systemd); err != nil {
		return fail("making its file system", err)
	}
	// Emulation in software, even where /dev/kvm exists: nested virtualisation is there on some hosts and hangs.
	qemu := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max,vendor=GenuineIntel",
		"-m", strconv.Itoa(m.MemoryMiB), "-smp", strconv.Itoa(m.CPUs), "-kernel", m.Kernel, "-initrd", initrd,
		"-append", words,
		"-nic", "none", "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot")
	var console bytes.Buffer
	qemu.Stdout = io.MultiWriter(&console, out)
	qemu.Stderr = qemu.Stdout
	err := qemu.Run()
	if hit := exitLine.FindSubmatch(console.Bytes()); hit != nil {
		return strconv.Atoi(string(hit[1]))
	}
	if err == nil {
		err = errors.New("it ended without saying how the program did")
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return fail("on its console", fmt.Errorf("%w: %s", err, tail(console.String(), 2000)))
}

const systemd = "/lib/systemd/systemd"

// WithLibraries lists programs of the host and the libraries that they need, as Files.
func WithLibraries(ctx context.Context, programs ...string) (map[string]string, error) {
	files := map[string]string{}
	for _, p := range programs {
		files[p] = p
		out, err := exec.CommandContext(ctx, "ldd", p).Output()
		if err != nil {
			return nil, fmt.Errorf("asking for the libraries of %s: %w", p, err)
		}
		for _, hit := range libraryPath.FindAllStringSubmatch(string(out), -1) {
			files[hit[1]] = hit[1]
		}
	}
	return files, nil
}

var libraryPath = regexp.MustCompile(`(?m)(/\S+) \(0x`)

// exitLine may have kernel messages around it.
var exitLine = regexp.MustCompile(`VM-EXIT:(-?[0-9]+)`)

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
