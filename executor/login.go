package executor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"stint/events"
)

// loginPatience is how long a user's login files may take.
const loginPatience = 20 * time.Second

// loginEnvironment is what a user's login shell sets up on this node, for jobs that did not bring all of their
// environment along.
func loginEnvironment(ctx context.Context, owner *events.Owner) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, loginPatience)
	defer cancel()
	home, shell := "/", "/bin/sh"
	entry, err := exec.CommandContext(ctx, "getent", "passwd", fmt.Sprint(owner.GetUid())).Output()
	if f := strings.Split(strings.TrimSpace(string(entry)), ":"); err == nil && len(f) == 7 {
		home = f[5]
		if f[6] != "" {
			shell = f[6]
		}
	}
	cmd := exec.CommandContext(ctx, shell, "-l", "-c", "printf '\\0stint-environment\\0'; exec env -0")
	cmd.Env = []string{"HOME=" + home, "USER=" + owner.GetUser(), "LOGNAME=" + owner.GetUser(), "SHELL=" + shell, "PATH=/usr/local/bin:/usr/bin:/bin"}
	cmd.Dir = "/"
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: owner.GetUid(), Gid: owner.GetGid(), Groups: owner.GetGroups()}}
	}
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("reading the login environment of %s with %s: %w", owner.GetUser(), shell, err)
	}
	// What login files print comes before.
	_, vars, ok := bytes.Cut(out, []byte("\x00stint-environment\x00"))
	if !ok {
		return nil, fmt.Errorf("reading the login environment of %s: %s ended before it had shown it", owner.GetUser(), shell)
	}
	return splitEnvironment(vars), nil
}

// over lays one environment over another: what is in both is the upper's.
func over(lower, upper []string) []string {
	has := map[string]bool{}
	for _, v := range upper {
		name, _, _ := strings.Cut(v, "=")
		has[name] = true
	}
	var out []string
	for _, v := range lower {
		if name, _, _ := strings.Cut(v, "="); !has[name] {
			out = append(out, v)
		}
	}
	return append(out, upper...)
}
