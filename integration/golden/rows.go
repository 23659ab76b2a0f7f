package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// row is a command line as the real Slurm answered it.
type row struct {
	Group     string `json:"group"`
	Name      string `json:"name"` // NNN-name, NNN counting the group's rows over all scenarios
	Command   string `json:"cmd"`
	Exit      int    `json:"exit"`
	Stdout    string `json:"stdout"`
	Truncated bool   `json:"truncated"`
	Note      string `json:"note"`
}

// bare is the name without its number.
func (r *row) bare() string {
	_, name, _ := strings.Cut(r.Name, "-")
	return name
}

// cut says that the recorder's time limit ended the command, so that its exit and its output say nothing.
func (r *row) cut() bool { return r.Exit == 124 || r.Note != "" }

// load reads the recorded rows, by group, in the order of their numbers.
func load(path string) (map[string][]*row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the recorded rows: %w", err)
	}
	defer f.Close()
	rows := map[string][]*row{}
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<24)
	for in.Scan() {
		r := new(row)
		if err := json.Unmarshal(in.Bytes(), r); err != nil {
			return nil, fmt.Errorf("%s: row %d: %w", path, len(rows), err)
		}
		rows[r.Group] = append(rows[r.Group], r)
	}
	for _, list := range rows {
		slices.SortFunc(list, func(a, b *row) int { return strings.Compare(a.Name, b.Name) })
	}
	return rows, in.Err()
}

func groupsOf(rows map[string][]*row) (names []string) {
	for g := range rows {
		names = append(names, g)
	}
	slices.Sort(names)
	return names
}

// answer is what Stint said to a row.
type answer struct {
	command, out, err string
	exit              int
}

// read returns the answers of one scenario to the rows of one group, those that were left out nil, and their names.
func read(dir string) (answers []*answer, names []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(files)
	for _, f := range files {
		base, isCommand := strings.CutSuffix(f, ".cmd")
		base, isLeft := strings.CutSuffix(base, ".left")
		if !isCommand && !isLeft {
			continue
		}
		_, name, _ := strings.Cut(filepath.Base(base), "-")
		names = append(names, name)
		if isLeft {
			answers = append(answers, nil)
			continue
		}
		text := map[string]string{}
		for _, part := range []string{"cmd", "rc", "out", "err"} {
			data, err := os.ReadFile(base + "." + part)
			if err != nil {
				return nil, nil, err
			}
			text[part] = string(data)
		}
		a := &answer{command: text["cmd"], out: text["out"], err: text["err"]}
		if a.exit, err = strconv.Atoi(strings.TrimSpace(text["rc"])); err != nil {
			return nil, nil, fmt.Errorf("%s.rc: %w", base, err)
		}
		answers = append(answers, a)
	}
	return answers, names, nil
}

// align returns at which of the recorded rows of a group a scenario's begin: where most names agree.
func align(real []*row, names []string) (from int) {
	best := -1
	for at := range real {
		same := 0
		for i, n := range names {
			if at+i < len(real) && real[at+i].bare() == n {
				same++
			}
		}
		if same > best {
			best, from = same, at
		}
	}
	return from
}

// pair returns for each name of a scenario's rows the recorded row it is, nil where it was not kept.
func pair(real []*row, names []string) []*row {
	pairs := make([]*row, len(names))
	at := align(real, names)
	for i, n := range names {
		for j := at; j < len(real); j++ {
			if real[j].bare() == n {
				pairs[i], at = real[j], j+1
				break
			}
		}
	}
	return pairs
}

// once are rows that the real one, asked the same again, answers otherwise, as Stint does: a job that --kill-on-invalid-dep cancelled was
// forgotten within three seconds, of two tasks that were cancelled right after their start accounting had no record, and a job that was to be
// requeued held had not begun.
var once = regexp.MustCompile(`^(dependency/015-kill-invalid-after|array/009-sacct|reasons/060-requeuehold)$`)

// leftOut says why a row is not compared, "" if it is.
func leftOut(r *row) string {
	for _, rule := range []struct {
		why  string
		like *regexp.Regexp
	}{
		{"slurmdbd's own settings and figures", regexp.MustCompile(`sacctmgr show (configuration|stats)`)},
		{"usage text", regexp.MustCompile(`--help\b|--usage\b|scontrol help`)},
		{"texts of error numbers", regexp.MustCompile(`errnumstr`)},
		{"this machine's hardware", regexp.MustCompile(`slurmd -C`)},
		{"what runs on the recorder's host, which was none of its nodes", regexp.MustCompile(`scontrol listpids`)},
		{"scrontab was not installed", regexp.MustCompile(`scrontab`)},
		{"the shape of JSON and YAML", regexp.MustCompile(`--json|--yaml`)},
	} {
		if rule.like.MatchString(r.Command) {
			return rule.why
		}
	}
	if once.MatchString(r.Group + "/" + r.Name) {
		return "the real one answered so once"
	}
	if r.cut() {
		return "cut off by the recorder"
	}
	return ""
}
