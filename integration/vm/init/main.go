// Command init is the first process of the small virtual machine in which package vm runs a test binary (or systemd's only
// service): it mounts what a program expects, runs the program, says on the console how it ended, and switches the machine
// off.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func main() {
	status := run()
	fmt.Printf("\nVM-EXIT:%d\n", status)
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() int {
	env := []string{"PATH=/bin", "HOME=/tmp", "TMPDIR=/tmp"}
	if os.Getpid() != 1 {
		// systemd has mounted everything.
		if err := os.MkdirAll("/tmp", 0o1777); err != nil {
			fmt.Println(err)
			return 120
		}
		return program(append(env, "STINT_VM_SYSTEMD=1"))
	}
	for _, m := range []struct{ kind, dir string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}, {"tmpfs", "/run"}, {"cgroup2", "/sys/fs/cgroup"},
	} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			fmt.Println(err)
			return 120
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, ""); err != nil {
			fmt.Printf("mounting %s: %v\n", m.dir, err)
			return 120
		}
	}
	if err := modules(); err != nil {
		fmt.Println(err)
		return 120
	}
	return program(env)
}

// modules gives the kernel the parts that it was sent with, in their order.
func modules() error {
	names, err := filepath.Glob("/modules/*.ko")
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil {
			return fmt.Errorf("loading %s: %w", name, err)
		}
	}
	return nil
}

// loopback brings up the one network interface there is, and gives the machine a name.
func loopback() error {
	if err := unix.Sethostname([]byte("vm")); err != nil {
		return fmt.Errorf("naming the machine: %w", err)
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bringing up lo: %w", err)
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r); err != nil {
		return fmt.Errorf("bringing up lo: %w", err)
	}
	return nil
}

func program(env []string) int {
	if err := loopback(); err != nil {
		fmt.Println(err)
		return 120
	}
	more, err := os.ReadFile("/env")
	if err != nil {
		fmt.Println(err)
		return 120
	}
	env = append(env, split(string(more))...)
	// What to run is the one line of a file: the kernel's command line is too short for some.
	args, err := os.ReadFile("/args")
	if err != nil {
		fmt.Println(err)
		return 120
	}
	c := exec.Command("/program", split(string(args))...)
	c.Stdout, c.Stderr, c.Dir = os.Stdout, os.Stdout, "/tmp"
	c.Env = env
	if err := c.Run(); err != nil {
		if c.ProcessState == nil {
			fmt.Println(err)
			return 121
		}
		return c.ProcessState.ExitCode()
	}
	return 0
}

// split takes NUL-separated arguments apart.
func split(s string) []string {
	var out []string
	for len(s) > 0 {
		i := 0
		for i < len(s) && s[i] != 0 {
			i++
		}
		out = append(out, s[:i])
		s = s[min(i+1, len(s)):]
	}
	return out
}
