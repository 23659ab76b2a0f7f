package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// program runs a program of this module, and returns what it prints.
func (b *bench) program(words ...string) ([]byte, error) {
	c := exec.Command("go", append([]string{"run"}, words...)...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("running %s: %w: %.500s", words[0], err, out)
	}
	return out, nil
}

// history measures a cluster that a great many jobs ran on, and jobs on it and on an empty one in turn.
func (b *bench) history() error {
	_, empty, err := b.start("", 0, b.tuned(8), "--virtual")
	if err != nil {
		return err
	}
	own, err := b.startOwn(b.tuned(8), "--virtual")
	if err != nil {
		return err
	}
	state := own.state()
	stint := filepath.Join(b.bin, "stint")
	c := exec.Command(stint, "down", "--dir", state)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("stopping a cluster to fill it: %w: %s", err, out)
	}
	n := b.count(1_000_000)
	if _, err := b.program("./integration/bench/history", "-dir", state, "-jobs", fmt.Sprint(n)); err != nil {
		return err
	}
	begun := time.Now()
	if err := b.upOwn(own); err != nil {
		return err
	}
	if _, err := own.do("squeue", "-h"); err != nil {
		return err
	}
	b.add(row{Key: "replay", Stint: fmt.Sprintf("%.1f s (%d jobs)", time.Since(begun).Seconds(), n)})
	last := fmt.Sprint(n)
	if err := own.until(30*time.Minute, func(out string) bool { return strings.TrimSpace(out) != "" }, "sacct", "-X", "-n", "-o", "State", "-j", last); err != nil {
		return err
	}
	b.add(row{Key: "rebuild", Stint: fmt.Sprintf("%.1f s (%d jobs, cluster starting meanwhile)", time.Since(begun).Seconds(), n)})
	var rates [2]float64
	for range 2 {
		for i, s := range []*side{empty, own} {
			rate, err := b.jobs(s, b.count(500))
			if err != nil {
				return err
			}
			rates[i] = max(rates[i], rate)
		}
	}
	b.add(row{Key: "history", Stint: fmt.Sprintf("%.0f %% (%.0f of %.0f jobs/s)", 100*rates[1]/rates[0], rates[1], rates[0])})
	return nil
}

var told = regexp.MustCompile(`(?m)^(.*?): +(.*)$`)

// queries runs the program that asks while others submit.
func (b *bench) queries() error {
	_, own, err := b.start("", 0, b.tuned(8), "--virtual")
	if err != nil {
		return err
	}
	out, err := b.program("./integration/bench/queries", "-dir", own.state())
	if err != nil {
		return err
	}
	os.Stderr.Write(out)
	lines := map[string]string{}
	for _, m := range told.FindAllStringSubmatch(string(out), -1) {
		lines[m[1]] = m[2]
	}
	b.add(row{Key: "queries", Stint: fmt.Sprintf("%s times; without: %s; with: %s; a question: %s CPU",
		lines["p99 with questions, divided by that without"], lines["intent to decision without questions"], lines["intent to decision with questions"], lines["CPU of the daemons for a question"])})
	return nil
}

var benchLine = regexp.MustCompile(`([\d.]+) (facts/s|cpu-ns/fact|events/s|jobs/s|cpu-ns/event)`)

// fold runs the benchmarks of the fold and of the ledger's rebuilding.
func (b *bench) fold() error {
	var cells []string
	for _, w := range [][]string{{"^BenchmarkFold$", "2s", "./projections"}, {"^BenchmarkRebuild$", "1x", "./ledger"}} {
		c := exec.Command("go", "test", "-run", "^$", "-bench", w[0], "-benchtime", w[1], w[2])
		c.Stderr = os.Stderr
		out, err := c.Output()
		if err != nil {
			return fmt.Errorf("running %s: %w: %s", w[0], err, out)
		}
		s := bufio.NewScanner(bytes.NewReader(out))
		for s.Scan() {
			f := strings.Fields(s.Text())
			if len(f) == 0 || !strings.HasPrefix(f[0], "Benchmark") {
				continue
			}
			var parts []string
			for _, m := range benchLine.FindAllStringSubmatch(s.Text(), -1) {
				parts = append(parts, m[1]+" "+m[2])
			}
			if len(parts) > 0 {
				cells = append(cells, strings.TrimPrefix(f[0], "Benchmark")+": "+strings.Join(parts, ", "))
			}
		}
	}
	b.add(row{Key: "fold", Stint: strings.Join(cells, "; ")})
	return nil
}

// state is the folder of a cluster of Stint.
func (s *side) state() string {
	for _, e := range s.env {
		if dir, ok := strings.CutPrefix(e, "STINT_DIR="); ok {
			return dir
		}
	}
	return ""
}

// floor says how often a Go program that does nothing is started by eight at once, and what one costs: no command of Stint can be better.
func (b *bench) floor(s *side) (string, error) {
	path := filepath.Join(b.dir, "empty")
	c := exec.Command("go", "build", "-o", path, "./integration/bench/empty")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building an empty program: %w: %s", err, out)
	}
	m, err := s.measure(b.count(400), 8, path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("; an empty Go program %.0f (%.1f ms CPU)", m.rate(), middle(m.CPU)), nil
}
