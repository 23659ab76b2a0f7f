package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Third-party tools, by the command lines they build and the way they read what comes back. Each section of
// testdata/clients/*.txt is one of them:
//
//	> NAME            the lines that follow, up to one that is "<", become the file NAME in the work directory
//	$ COMMAND         is run by sh there, with what was captured so far in place of {name}
//	& COMMAND         is run again and again until the checks below it hold, for as long as a test waits
//	! N               its exit code (0 if nothing is said)
//	~ REGEXP          some line of its output matches; named groups are captured
//	* REGEXP          every line matches, and there is one
//	= TEXT            the whole output, \n and \t written so
//	- REGEXP          no line matches
//	e REGEXP          some line of its standard error matches
//
// A line that begins with # is a remark.
func TestClients(t *testing.T) {
	files, err := filepath.Glob("testdata/clients/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no clients: %v", err)
	}
	c := start(t, "--nodes", "n[1-4]", "--cpus", "8", "--memory", "16000", "--gres", "gpu:a100:2")
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			work := t.TempDir()
			os.Chmod(work, 0o777)
			p := &client{t: t, c: c, dir: work, vars: map[string]string{}}
			p.play(string(data), file)
		})
	}
}

// A site as people describe one, its file as it stands but for the number of nodes, with the command lines and scripts that go with
// it and stand-ins for the programs; what is not built yet is refused by name.
func TestSite(t *testing.T) {
	alice, _, _ := people(t)
	site, err := filepath.Abs("testdata/site")
	if err != nil {
		t.Fatal(err)
	}
	buildPMIx(t) // one of its scripts wants it
	c := start(t, "--config", filepath.Join(site, "slurm.conf"), "--virtual")
	for _, args := range [][]string{
		{"add", "account", "ml-team"}, {"add", "qos", "high"}, {"add", "user", alice.name, "account=ml-team"}, {"modify", "user", alice.name, "set", "qos+=high"},
	} {
		c.do("sacctmgr", append([]string{"-i"}, args...)...)
	}
	data, err := os.ReadFile(filepath.Join(site, "session.txt"))
	if err != nil {
		t.Fatal(err)
	}
	p := &client{t: t, c: c, dir: c.work, vars: map[string]string{"user": alice.name}, who: &alice}
	p.play(string(data), "testdata/site/session.txt")
}

// client is one tool at work.
type client struct {
	t    *testing.T
	c    *cluster
	dir  string
	vars map[string]string
	who  *person // nil: who runs the tests
}

// exchange is a command and what is expected of it.
type exchange struct {
	line    int
	command string
	until   bool // again and again until it is so
	code    int
	checks  []string
}

func (p *client) play(text, file string) {
	p.t.Helper()
	lines := strings.Split(text, "\n")
	var now *exchange
	flush := func() {
		if now != nil {
			p.run(now, file)
		}
		now = nil
	}
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case ">":
			flush()
			var body []string
			for i++; i < len(lines) && lines[i] != "<"; i++ {
				body = append(body, lines[i])
			}
			if err := os.WriteFile(filepath.Join(p.dir, rest), []byte(p.fill(strings.Join(body, "\n")+"\n")), 0o755); err != nil {
				p.t.Fatal(err)
			}
		case "$", "&":
			flush()
			now = &exchange{line: i + 1, command: rest, until: kind == "&"}
		case "!":
			fmt.Sscan(rest, &now.code)
		case "~", "*", "=", "-", "e":
			if now == nil {
				p.t.Fatalf("%s:%d: a check without a command", file, i+1)
			}
			now.checks = append(now.checks, line)
		case "#", "":
		default:
			p.t.Fatalf("%s:%d: %q is no kind of line", file, i+1, kind)
		}
	}
	flush()
}

// fill puts what was captured in place of {name}.
func (p *client) fill(s string) string {
	for name, value := range p.vars {
		s = strings.ReplaceAll(s, "{"+name+"}", value)
	}
	return s
}

func (p *client) run(x *exchange, file string) {
	p.t.Helper()
	command := p.fill(x.command)
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		out, errs, code := p.shell(command)
		err := p.judge(x, out, errs, code)
		if err == nil {
			return
		}
		if !x.until || time.Now().After(end) {
			p.t.Errorf("%s:%d: %s\n%v\nit ends with %d and prints\n%s%s", file, x.line, command, err, code, out, errs)
			return
		}
	}
}

func (p *client) shell(command string) (out, errs string, code int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/bash", "-c", command)
	cmd.Dir = p.dir
	cmd.Env = append(clean(os.Environ()), "STINT_DIR="+p.c.dir, "USER="+caller(p.t), "PATH="+filepath.Join(p.c.dir, "bin")+":/usr/bin:/bin")
	if p.who != nil {
		cmd.Env = append(cmd.Env, "USER="+p.who.name, "HOME="+p.who.home)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.who.uid, Gid: p.who.gid, Groups: p.who.groups}}
	}
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		code = -1
	}
	return o.String(), e.String(), code
}

// caller is who runs the tests.
func caller(t *testing.T) string {
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}

// judge holds an answer to the checks, and captures what they name.
func (p *client) judge(x *exchange, out, errs string, code int) error {
	if code != x.code {
		return fmt.Errorf("it has to end with %d", x.code)
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	found := map[string]string{}
	for _, check := range x.checks {
		kind, want, _ := strings.Cut(check, " ")
		want = p.fill(want)
		if kind == "=" {
			if want = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\x1f`, "\x1f", `\x1e`, "\x1e").Replace(want); out != want {
				return fmt.Errorf("it has to print %q", want)
			}
			continue
		}
		re, err := regexp.Compile(want)
		if err != nil {
			p.t.Fatalf("%s: %v", check, err)
		}
		of := lines
		if kind == "e" {
			of = strings.Split(errs, "\n")
		}
		matched := 0
		for _, l := range of {
			m := re.FindStringSubmatch(l)
			if m == nil {
				if kind == "*" {
					return fmt.Errorf("the line %q has to match %s", l, want)
				}
				continue
			}
			matched++
			for i, name := range re.SubexpNames() {
				if name != "" && found[name] == "" {
					found[name] = m[i]
				}
			}
		}
		switch {
		case kind == "-" && matched > 0:
			return fmt.Errorf("no line may match %s", want)
		case kind != "-" && matched == 0:
			return fmt.Errorf("a line has to match %s", want)
		}
	}
	for name, value := range found {
		p.vars[name] = value
	}
	return nil
}
