package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// built builds a program for a test.
func built(t *testing.T, name, pkg string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", "build", "-o", path, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", pkg, err, out)
	}
	return path
}

// What a start costs is counted, since it can't be timed on a machine that does other things too: what is made before main runs, and
// the pages that are touched. Each of a thousand `sbatch` in a loop pays for both.
func TestStart(t *testing.T) {
	cli := built(t, "sbatch", ".")

	t.Run("nothing of Stint's is made before main", func(t *testing.T) {
		cmd := exec.Command(cli, "--version")
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		lines := regexp.MustCompile(`(?m)^init (\S+) @.*, (\d+) bytes, (\d+) allocs$`).FindAllStringSubmatch(string(out), -1)
		if len(lines) < 10 {
			t.Fatalf("no packages are listed:\n%s", out)
		}
		total := 0
		for _, l := range lines {
			n, _ := strconv.Atoi(l[3])
			total += n
			// A few errors.New; a map or a table is many.
			if strings.HasPrefix(l[1], "stint/cli/") && n > 5 {
				t.Errorf("package %s makes %d things as each command starts: make them when they are looked at (cli/slurm/once)", l[1], n)
			}
		}
		// 209 are of Go's packages, of protobuf's and of names of values; there were 1,120 before tables were made when they are looked at.
		if total > 250 {
			t.Errorf("%d things are made as each command starts; see with GODEBUG=inittrace=1 by whom", total)
		}
	})

	t.Run("a start touches few pages", func(t *testing.T) {
		if os.Getpagesize() != 4096 {
			t.Skip("the bound is for pages of 4 KiB")
		}
		faults := func(args ...string) int64 {
			least := int64(0)
			for range 7 { // the heap begins where chance has it, which costs some more now and then
				cmd := exec.Command(args[0], args[1:]...)
				if err := cmd.Run(); err != nil {
					t.Fatal(err)
				}
				n := cmd.ProcessState.SysUsage().(*syscall.Rusage).Minflt
				if least == 0 || n < least {
					least = n
				}
			}
			return least
		}
		dir := t.TempDir()
		for name, text := range map[string]string{"go.mod": "module empty\n", "main.go": "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(\"\") }\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("go", "build", "-o", "empty", ".")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		own, empty := faults(cli, "--version"), faults(filepath.Join(dir, "empty"))
		t.Logf("%d pages, %d of them any Go program's", own, empty)
		// 115 of its own were measured, and 195 before the stack was grown at once and tables were made when they are looked at.
		if own-empty > 150 {
			t.Errorf("a start touches %d pages, %d more than an empty Go program; see which with `perf record -e page-faults -c 1 -d`", own, own-empty)
		}
	})
}
