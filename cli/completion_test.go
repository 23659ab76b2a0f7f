package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"stint/cli/commands"
)

func completionFor(t *testing.T, shell string) string {
	t.Helper()
	a := app()
	var out bytes.Buffer
	a.Writer = &out
	if err := a.Run([]string{"stint", "completion", shell}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Every shell's completion names all of Slurm's names, and bash takes it and completes their options.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text := completionFor(t, shell)
		if !strings.Contains(text, strings.Join(commands.Names(), " ")) || strings.Contains(text, "NAMES") || !strings.Contains(text, "stint") {
			t.Errorf("%s:\n%s", shell, text)
		}
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	dir := t.TempDir()
	help := "#!/bin/sh\nprintf '%s\\n' 'Usage: x' '  -p, --partition=NAMES          not --that' '      --parsable[=x]           y' '      --wrap=COMMAND           z'\n"
	for _, name := range []string{"sbatch", "stint"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(help), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := completionFor(t, "bash") + `
COMP_WORDS=(sbatch --pa); COMP_CWORD=1; _stint_slurm sbatch --pa; echo "${COMPREPLY[@]}"
COMP_WORDS=(stint sbatch --w); COMP_CWORD=2; _stint stint --w; echo "${COMPREPLY[@]}"
`
	cmd := exec.Command(bash, "--norc", "-c", script)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if want := "--partition= --parsable\n--wrap=\n"; err != nil || string(out) != want {
		t.Errorf("bash completes %q (%v), want %q", out, err, want)
	}
}

// The units start commands that there are, with options that those have.
func TestUnitsSpeak(t *testing.T) {
	units, err := filepath.Glob("../deployments/systemd/*.service")
	if err != nil || len(units) < 7 {
		t.Fatalf("units: %v, %v", units, err)
	}
	a := app()
	started := map[string]bool{}
	for _, u := range units {
		data, err := os.ReadFile(u)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			rest, ok := strings.CutPrefix(line, "ExecStart=/usr/bin/stint ")
			if !ok {
				continue
			}
			words := strings.Fields(rest)
			i := slices.IndexFunc(a.Commands, func(c *cli.Command) bool { return c.Name == words[0] })
			if i < 0 {
				t.Errorf("%s: there is no command %s", u, words[0])
				continue
			}
			started[words[0]] = true
			for _, w := range words[1:] {
				if name, option := strings.CutPrefix(w, "--"); option && !slices.ContainsFunc(a.Commands[i].Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }) {
					t.Errorf("%s: %s has no option %s", u, words[0], w)
				}
			}
		}
	}
	for _, c := range a.Commands {
		if c.Category == daemons && !started[c.Name] {
			t.Errorf("no unit starts the daemon %s", c.Name)
		}
	}
}
