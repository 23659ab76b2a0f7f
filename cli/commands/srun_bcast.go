package commands

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"stint/cli/slurm"
	"stint/executor/tasks"
	"stint/projections"
)

// srun --bcast: the program is copied to the nodes of the step before it is run there.

// copyProgram copies the program of a component to its nodes, where that is wanted.
func (l *launcher) copyProgram(c *component) (code int, ok bool) {
	s := c.s
	switch {
	case !s.Bcast:
		return 0, true
	case s.MultiProg:
		return l.fail("--bcast copies one program, and --multi-prog names several: copy them with sbcast"), false
	}
	program, err := findProgram(s.Command[0], s.Environ, s.Spec.WorkDir)
	if err != nil {
		return l.fail("Can't find %s to copy it (--bcast): %v", s.Command[0], plain(err)), false
	}
	to := s.BcastTo
	if to == "" {
		to = l.bcastDir(s.Spec.WorkDir) + "/"
	}
	if !filepath.IsAbs(to) {
		to = s.Spec.WorkDir + "/" + to
	}
	if strings.HasSuffix(to, "/") {
		to += "slurm_bcast_" + c.id()
		c.byNode = true
	}
	var nodes []string
	for _, n := range l.nodes {
		if n.of == c {
			nodes = append(nodes, n.name)
		}
	}
	b := &broadcast{w: l.w, name: "srun", byNode: c.byNode, s: &slurm.Sbcast{
		Job: c.job, Source: program, Target: to, Nodes: nodes, Compress: s.BcastCompress, Force: true, Preserve: true, Size: bcastPiece, Timeout: 60}}
	if code := b.run(); code != 0 {
		fmt.Fprintf(l.w.Stderr, "srun: fatal: Failed to broadcast '%s'. Step launch aborted.\n", program)
		return l.w.exitError(1), false
	}
	c.copied = to
	return 0, true
}

const bcastPiece = 4 << 20

// bcastDir is where programs are copied to when nothing is said: BcastParameters=DestDir of the site, or the working directory.
func (l *launcher) bcastDir(dir string) string {
	if l.config == nil {
		if a, err := l.w.ask("srun", &projections.Ask{What: &projections.Ask_Config{Config: &projections.AskConfig{}}}); err == nil {
			l.config = a.GetConfig().GetConfig()
		}
	}
	for _, set := range l.config.GetSettings() {
		if !strings.EqualFold(set.GetKey(), "BcastParameters") {
			continue
		}
		for p := range strings.SplitSeq(set.GetValue(), ",") {
			if name, value, _ := strings.Cut(strings.TrimSpace(p), "="); strings.EqualFold(name, "DestDir") && value != "" {
				return strings.TrimRight(value, "/")
			}
		}
	}
	return dir
}

// beginOn is what a node of a component is told.
func (c *component) beginOn(node string) *tasks.Begin {
	if c.copied == "" {
		return c.begin
	}
	path := c.copied
	if c.byNode {
		path = fmt.Sprintf("%s_%s", path, node)
	}
	b := c.begin.CloneVT()
	for _, p := range b.Programs {
		p.Argv = slices.Clone(p.Argv)
		p.Argv[0] = []byte(path)
	}
	return b
}
