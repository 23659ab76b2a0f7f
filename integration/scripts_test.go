package integration

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var ask = flag.Bool("ask", false, "ask a real Slurm what it makes of testdata/scripts.txt, and write that down")

// written is one case of testdata/scripts.txt.
type written struct {
	title, needs, command, script string
	want                          string
}

func readScripts(t *testing.T) (head string, cases []*written) {
	data, err := os.ReadFile("testdata/scripts.txt")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(data), "\n=== ")
	for _, part := range parts[1:] {
		lines := strings.Split(strings.TrimRight(part, "\n"), "\n")
		c := &written{title: lines[0]}
		var script []string
		for _, l := range lines[1:] {
			switch {
			case strings.HasPrefix(l, "? "):
				c.needs = l[2:]
			case strings.HasPrefix(l, "$ "):
				c.command = l[2:]
			case strings.HasPrefix(l, "  "):
				c.command += "\n" + l[2:]
			case strings.HasPrefix(l, "\t"):
				script = append(script, l[1:])
			case strings.HasPrefix(l, "| "), l == "|":
				c.want += strings.TrimPrefix(l[1:], " ") + "\n"
			default:
				t.Fatalf("%s: %q is no kind of line", c.title, l)
			}
		}
		if script != nil {
			c.script = strings.TrimSuffix(strings.Join(script, "\n")+"\n", "\n\\\n")
			c.script = strings.ReplaceAll(c.script, `\r`, "\r")
		}
		cases = append(cases, c)
	}
	return parts[0], cases
}

// trailing is blanks at the ends of lines, which the file does not keep.
var trailing = regexp.MustCompile(`[ \t]+\n`)

// mask writes ID for the ids of jobs that were submitted after one: those a hundred beyond it.
func mask(text string, after int) string {
	return regexp.MustCompile(`\b\d+\b`).ReplaceAllStringFunc(text, func(s string) string {
		if n, err := strconv.Atoi(s); err == nil && n > after && n <= after+300 {
			return "ID"
		}
		return s
	})
}

// Scripts of many styles run here as they run on the real one: what they print, how they end, what sbatch says.
func TestScripts(t *testing.T) {
	head, cases := readScripts(t)
	if len(cases) < 50 {
		t.Fatalf("%d scripts", len(cases))
	}
	needRoot(t)
	alice, _, _ := people(t)
	var shell func(dir, command string) string
	var home string
	var first int
	if *ask {
		oracle, name := filepath.Join(os.Getenv("STINT_ORACLE"), "oracle"), os.Getenv("ORACLE")
		shell = func(dir, command string) string {
			return output(t, dir, append(os.Environ(), "USER=alice"), oracle, name, "as", "/bin/bash", "-c", "cd "+dir+"; exec 2>&1; "+command)
		}
		home, _ = os.MkdirTemp("", "stint-test-")
		defer os.RemoveAll(home)
		os.Chmod(home, 0o777)
	} else {
		conf := filepath.Join(t.TempDir(), "slurm.conf")
		os.WriteFile(conf, []byte("ClusterName=site\nSlurmctldHost=h\nSlurmCompat=22.05\nFirstJobId=70001\nNodeName=n[1-4] CPUs=8 RealMemory=16000\nPartitionName=compute Nodes=ALL Default=YES\nDefMemPerCPU=100\n"), 0o644)
		c := start(t, "--config", conf, "--virtual")
		c.env = append(c.env, "PATH="+filepath.Join(c.dir, "bin")+":/usr/local/bin:/usr/bin:/bin")
		shell = func(dir, command string) string {
			p := alice
			p.home = dir
			r := c.as(p, "/bin/bash", "-c", "exec 2>&1; "+command)
			return r.out + r.err
		}
		home = alice.home
	}
	if n, err := strconv.Atoi(strings.TrimSpace(shell("/tmp", "sbatch --parsable -o /dev/null --wrap true"))); err != nil {
		t.Fatal(err)
	} else {
		first = n
	}
	for i, c := range cases {
		t.Run(c.title, func(t *testing.T) {
			if c.needs != "" {
				if _, err := exec.LookPath(c.needs); err != nil {
					if _, err := os.Stat(c.needs); err != nil {
						t.Skipf("needs %s", c.needs)
					}
				}
			}
			dir := filepath.Join(home, fmt.Sprintf("s%d", i))
			if err := os.Mkdir(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			os.Chmod(dir, 0o777)
			if c.script != "" {
				os.WriteFile(filepath.Join(dir, "job.sh"), []byte(c.script), 0o755)
			}
			got := trailing.ReplaceAllString(mask(shell(dir, c.command), first), "\n")
			if *ask {
				c.want = got
			} else if got != c.want {
				t.Errorf("it prints\n%s\nand not\n%s\nafter %s\n%s", got, c.want, c.command, c.script)
			}
		})
	}
	if *ask {
		writeScripts(t, head, cases)
	}
}

// output is what a program prints.
func output(t *testing.T, dir string, env []string, name string, args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, clean(env), &out, &out, time.Second
	cmd.Run()
	return out.String()
}

func writeScripts(t *testing.T, head string, cases []*written) {
	var b strings.Builder
	b.WriteString(head)
	for _, c := range cases {
		b.WriteString("\n=== " + c.title + "\n")
		if c.needs != "" {
			b.WriteString("? " + c.needs + "\n")
		}
		b.WriteString("$ " + strings.ReplaceAll(c.command, "\n", "\n  ") + "\n")
		if c.script != "" {
			text := strings.ReplaceAll(c.script, "\r", `\r`)
			if !strings.HasSuffix(text, "\n") {
				text += "\n\\\n"
			}
			b.WriteString("\t" + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n\t") + "\n")
		}
		for line := range strings.Lines(c.want) {
			b.WriteString(strings.TrimRight("| "+line, " \n") + "\n")
		}
	}
	b.WriteString("\n")
	if err := os.WriteFile("testdata/scripts.txt", []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
