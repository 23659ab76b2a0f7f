package commands

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/term"

	"stint/cli/slurm"
	"stint/cli/wire"
	"stint/events"
	"stint/projections"
)

// maxCrontab is how many bytes of a crontab are read: more than admission takes, so that it says so.
const maxCrontab = 1 << 20

// crontab is one call of scrontab.
type crontab struct {
	w    *World
	uid  uint32 // whose it is
	home string
	of   string // whose, where it is not the caller's
}

func scrontab(args []string, w *World) int {
	s, err := slurm.ReadScrontab(w.input(args))
	switch {
	case err != nil:
		return w.complain("scrontab", err)
	case s.Print != "":
		io.WriteString(w.Stdout, s.Print)
		return 0
	}
	terminal := w.terminal()
	if s.Edit && !terminal {
		return w.noCrontab("Standard input is not a TTY: an editor needs one; scrontab FILE, or scrontab - with the crontab on standard input, takes it as it is")
	}
	c, err := w.crontabOf(s.User)
	if err != nil {
		return w.noCrontab(err.Error())
	}
	a, err := w.ask("scrontab", &projections.Ask{What: &projections.Ask_Crontab{Crontab: &projections.AskCrontab{Of: c.uid}}})
	switch {
	case err != nil:
		return w.noCrontab(why(err))
	case a.Error != "":
		return w.noCrontab(a.Error)
	case !a.GetCrontab().GetEnabled():
		return w.noCrontab("scrontab is disabled on this cluster: ScronParameters=enable in slurm.conf would enable it")
	case s.Remove:
		return c.remove()
	case !s.List && (s.File != "" || !terminal):
		return c.replace(s.File)
	case a.GetCrontab().GetDenied():
		return w.noCrontab("slurm_request_crontab failed: " + refusals.Get()[events.Code_ACCESS_DENIED])
	}
	have := a.GetCrontab().GetCrontab()
	text := slurm.MarkLines(have.GetText(), slurm.MarkDisabled, have.GetDisabled())
	switch {
	case !s.List:
		return c.edit(have != nil, text)
	case have == nil:
		fmt.Fprintf(w.Stdout, "no crontab for %s\n", c.name())
		return 1
	}
	io.WriteString(w.Stdout, text)
	return 0
}

// noCrontab prints why nothing came of it, and returns the exit code.
func (w *World) noCrontab(text string) int {
	fmt.Fprintf(w.Stderr, "scrontab: fatal: %s\n", text)
	return 1
}

// terminal says whether standard input is one.
func (w *World) terminal() bool {
	if w.Terminal != nil {
		return w.Terminal()
	}
	f, ok := w.Stdin.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// crontabOf finds whose crontab is meant: the caller's, or that of a user by name or number.
func (w *World) crontabOf(user string) (*crontab, error) {
	c := &crontab{w: w, uid: w.Uid}
	if user != "" {
		uid, known := w.Users.Uid(user)
		if n, err := strconv.ParseUint(user, 10, 32); !known && err == nil {
			uid, known = uint32(n), true
		}
		if !known {
			return nil, errors.New("Could not find user " + user)
		}
		if c.uid = uid; uid != w.Uid {
			c.of = user
		}
	}
	if w.Users.Home != nil {
		c.home = w.Users.Home(c.uid)
	}
	if c.home == "" && c.of == "" {
		c.home = w.Getenv("HOME")
	}
	if c.home == "" {
		c.home = "/"
	}
	return c, nil
}

func (c *crontab) name() string {
	if name := c.w.Users.Name(c.uid); name != "" {
		return name
	}
	return strconv.FormatUint(uint64(c.uid), 10)
}

func (c *crontab) remove() int {
	switch v, err := c.send(&wire.Crontab{Remove: true, Of: c.of}); {
	case err != nil:
		return c.w.noCrontab("slurm_remove_crontab failed: " + why(err))
	case v.Code != events.Code_OK:
		return c.w.noCrontab("slurm_remove_crontab failed: " + strings.ReplaceAll(refused(v.Code, v.Text), "\n", ": "))
	}
	return 0
}

func (c *crontab) send(t *wire.Crontab) (*wire.Verdict, error) {
	conn, err := c.w.connect("scrontab")
	if err != nil {
		return nil, err
	}
	resp, err := conn.Call(&wire.Request{What: &wire.Request_Crontab{Crontab: t}})
	if err != nil {
		return nil, err
	}
	v := resp.GetVerdicts().GetVerdicts()
	switch {
	case len(v) != 1:
		return nil, errors.New("the agent answered something else than was asked")
	case v[0].Undecided:
		return nil, errors.New("the crontab is kept and waits for a controller to judge it")
	}
	return v[0], nil
}

// install puts a text in place of the crontab. lines are those that are at fault where it is refused; none: it is all of it.
func (c *crontab) install(text string) (lines []*projections.LineRange, err error) {
	if len(text) > maxCrontab {
		return nil, fmt.Errorf("the crontab is longer than the %d bytes that are read", maxCrontab)
	}
	in := c.w.call(nil)
	in.Dir = c.home
	entries, err := slurm.ReadCrontab(text, in)
	var fault *slurm.CrontabFault
	if errors.As(err, &fault) {
		return []*projections.LineRange{{First: uint32(fault.First), Last: uint32(fault.Last)}}, err
	}
	t := &wire.Crontab{Text: text, Of: c.of}
	for _, e := range entries {
		for _, note := range e.Notes {
			fmt.Fprintf(c.w.Stderr, "scrontab: %s\n", note)
		}
		e.Spec.Umask, e.Spec.Rlimits = umask(), rlimits(e.Propagate)
		if e.Clusters != "" {
			info, err := c.w.config("scrontab")
			if err == nil {
				err = c.w.other(e.Clusters, info.GetConfig().GetCluster())
			}
			if err != nil {
				return nil, err
			}
		}
		t.Entries = append(t.Entries, &wire.Component{Spec: e.Spec, Script: e.Script, Environment: joinEnviron(e.Environ)})
	}
	v, err := c.send(t)
	if err != nil || v.Code == events.Code_OK {
		return nil, err
	}
	text = refused(v.Code, v.Text)
	for _, f := range v.Targets {
		var r projections.LineRange
		if n, _ := fmt.Sscanf(f.Name, "%d-%d", &r.First, &r.Last); n == 2 {
			lines = append(lines, &r)
			return lines, &slurm.CrontabFault{First: int(r.First), Last: int(r.Last), Text: strings.ReplaceAll(text, "\n", ": ")}
		}
	}
	return nil, errors.New(strings.ReplaceAll(text, "\n", ": "))
}

// replace takes the crontab from a file, or from standard input.
func (c *crontab) replace(file string) int {
	from := c.w.Stdin
	if file != "" && file != "-" {
		path := file
		if !filepath.IsAbs(path) {
			path = filepath.Join(c.w.Dir, path)
		}
		f, err := os.Open(path)
		if err != nil {
			return c.w.noCrontab(fmt.Sprintf("failed to open %s: %v", file, plain(err)))
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxCrontab+1))
	if err != nil {
		return c.w.noCrontab("reading the crontab: " + plain(err).Error())
	}
	if _, err := c.install(string(text)); err != nil {
		c.w.complain("scrontab", errors.New(why(err)))
		var fault *slurm.CrontabFault
		if errors.As(err, &fault) {
			io.WriteString(c.w.Stdout, "There are errors in your crontab.\n")
		}
		return 1
	}
	return 0
}

// edit has the crontab edited, and again as long as there is a fault in it and whoever edits has not given up.
func (c *crontab) edit(has bool, text string) int {
	if !has {
		text = slurm.NewCrontab
	}
	in := bufio.NewReader(c.w.Stdin)
	for {
		var err error
		if text, err = c.edited(text); err != nil {
			return c.w.noCrontab(err.Error())
		}
		lines, err := c.install(text)
		if err == nil {
			return 0
		}
		c.w.complain("scrontab", errors.New(why(err)))
		if len(lines) == 0 {
			return 1
		}
		io.WriteString(c.w.Stdout, "There are errors in your crontab.\nThe lines that failed are marked with "+strings.TrimSpace(slurm.MarkBad)+"\n")
		again, err := c.again(in)
		if err != nil {
			return 1
		}
		if !again {
			return 0 // as Slurm has it
		}
		text = slurm.MarkLines(text, slurm.MarkBad, lines)
	}
}

// again asks whether to edit once more.
func (c *crontab) again(in *bufio.Reader) (bool, error) {
	for {
		io.WriteString(c.w.Stdout, "Do you want to retry the edit? (y/n) ")
		line, err := in.ReadString('\n')
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return true, nil
		case "n", "no":
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// edited is a text as it comes out of the editor.
func (c *crontab) edited(text string) (string, error) {
	dir := c.w.Getenv("TMPDIR")
	if dir == "" {
		dir = "/tmp"
	}
	f, err := os.CreateTemp(dir, "scrontab-*") // for its owner alone
	if err != nil {
		return "", fmt.Errorf("error creating temp crontab file: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("error writing to temp crontab file: %w", err)
	}
	editor := c.w.Getenv("VISUAL")
	if editor == "" {
		editor = c.w.Getenv("EDITOR")
	}
	if editor == "" {
		editor = "vi"
	}
	cmd := exec.Command("/bin/sh", "-c", editor+` "$1"`, "sh", f.Name())
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = c.w.Environ, c.w.Dir, c.w.Stdout, c.w.Stderr
	if in, ok := c.w.Stdin.(*os.File); ok { // anything else would be read to its end for it
		cmd.Stdin = in
	}
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("editor returned non-zero exit code: %s: %v; the crontab is as it was", editor, err)
	}
	got, err := os.Open(f.Name()) // an editor may have put another file there
	if err != nil {
		return "", fmt.Errorf("error reopening temp crontab file: %w", err)
	}
	defer got.Close()
	out, err := io.ReadAll(io.LimitReader(got, maxCrontab+1))
	if err != nil {
		return "", fmt.Errorf("error reading temp crontab file: %w", err)
	}
	return string(out), nil
}
