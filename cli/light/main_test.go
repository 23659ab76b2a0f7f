package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The light client begins quickly: the schemas are plain structs and codecs (events/plain.pl, which is part of `task generate`).
func TestSchemasArePlain(t *testing.T) {
	files, err := exec.Command("git", "-C", "../..", "ls-files", "*.pb.go").Output()
	if err != nil {
		t.Skip("not in a git checkout")
	}
	for name := range strings.Lines(string(files)) {
		text, err := os.ReadFile("../../" + strings.TrimSpace(name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "google.golang.org/") {
			t.Errorf("%s needs protobuf's runtime, which each command would wait for: run `task generate`", strings.TrimSpace(name))
		}
	}
}

// What submits is linked with no other command.
func TestSubmitterAlone(t *testing.T) {
	out, err := exec.Command("go", "tool", "nm", built(t, "stint-sbatch", "./sbatch")).Output()
	if err != nil {
		t.Fatalf("listing what it is linked with: %v", err)
	}
	if !strings.Contains(string(out), " stint/cli/commands.sbatch\n") {
		t.Error("sbatch is not in it")
	}
	for _, name := range []string{"squeue", "sinfo", "scontrol", "sacct", "scancel", "srun", "salloc"} {
		if strings.Contains(string(out), " stint/cli/commands."+name+"\n") {
			t.Errorf("%s is in it, and each submission pays for its tables", name)
		}
	}
}

// The light client is light: what it must not be linked with is not among its dependencies.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{len .CgoFiles}}", ".").Output()
	if err != nil {
		t.Fatalf("listing the dependencies: %v", err)
	}
	heavy := []string{"github.com/nats-io/", "github.com/urfave/", "github.com/cockroachdb/", "github.com/containerd/", "github.com/cilium/", "stint/events/bus", "stint/scheduler", "stint/executor", "google.golang.org/", "net/http"}
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		path, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		seen[path] = true
		for _, h := range heavy {
			if strings.HasPrefix(path, h) && path != "stint/executor/machine" && path != "stint/executor/tasks" && path != "stint/executor/pmi" { // a few files; what is said of steps, and the keeper
				t.Errorf("the light client is linked with %s", path)
			}
		}
	}
	if !seen["stint/cli/commands"] || !seen["stint/cli/wire"] {
		t.Error("the list of dependencies is not that of the light client")
	}
}
