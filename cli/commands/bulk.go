package commands

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"stint/cli/slurm"
	"stint/cli/wire"
	"stint/events"
)

// Bulk submits many jobs: one a line, as a JSON object whose keys are sbatch's long options, and these:
//
//	script   the text of the script, or
//	file     the path of the script, or
//	wrap     a command
//	args     a list of arguments of the script
//	env      an object of variables that are set besides those of the environment
//
// A value is a string or a number, true for an option that takes none, or a list for one given several times.
type Bulk struct {
	World    *World
	In       io.Reader
	Progress func(done, refused int) // called now and then
	part     []*bulkLine
	bytes    int
	conn     *wire.Conn
	out      *json.Encoder
	umask    uint32
	release  slurm.Release
	done     int
	refused  int
}

// BulkResult is what is printed for each line of the input.
type BulkResult struct {
	Line  int    `json:"line"`
	Job   uint32 `json:"job,omitempty"`
	Error string `json:"error,omitempty"`
	Note  string `json:"note,omitempty"`
}

type bulkLine struct {
	result BulkResult
	job    *wire.Job
}

const (
	bulkPart  = 1000    // jobs of one request
	bulkBytes = 8 << 20 // of scripts and environments of one request, before equal ones are stored once
)

// Run reads all lines and prints one result for each, in order. It returns how many were refused; the error is for input or
// a cluster that fails altogether.
func (b *Bulk) Run() (refused int, err error) {
	b.conn, err = b.World.dial("stint submit")
	if err != nil {
		return 0, errors.New(why(err))
	}
	defer b.conn.Close()
	b.out = json.NewEncoder(b.World.Stdout)
	b.umask, b.release = umask(), b.World.Release()
	r := bufio.NewReaderSize(b.In, 1<<16)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := b.add(n, line); err != nil {
				return b.refused, err
			}
		}
		if errors.Is(err, io.EOF) {
			return b.refused, b.flush()
		}
		if err != nil {
			return b.refused, fmt.Errorf("reading line %d: %w", n, err)
		}
	}
}

func (b *Bulk) add(n int, line []byte) error {
	l := &bulkLine{result: BulkResult{Line: n}}
	job, note, err := b.parse(line)
	l.result.Note = note
	if err != nil {
		l.result.Error = err.Error()
	} else {
		l.job = job
		b.bytes += len(job.Components[0].Script) + len(job.Components[0].Environment)
	}
	b.part = append(b.part, l)
	if len(b.part) >= bulkPart || b.bytes >= bulkBytes {
		return b.flush()
	}
	return nil
}

// parse makes a job of a line.
func (b *Bulk) parse(line []byte) (*wire.Job, string, error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	var o map[string]any
	if err := d.Decode(&o); err != nil {
		return nil, "", fmt.Errorf("the line is not a JSON object: %w", err)
	}
	take := func(key string) (string, bool, error) {
		v, ok := o[key]
		delete(o, key)
		if !ok {
			return "", false, nil
		}
		s, isText := v.(string)
		if !isText {
			return "", false, fmt.Errorf("%s must be a string", key)
		}
		return s, true, nil
	}
	script, inline, err := take("script")
	if err != nil {
		return nil, "", err
	}
	file, named, err := take("file")
	if err != nil {
		return nil, "", err
	}
	environ := slices.Clone(b.World.Environ)
	if v, ok := o["env"].(map[string]any); ok {
		for _, name := range slices.Sorted(maps.Keys(v)) {
			environ = append(slices.DeleteFunc(environ, func(nv string) bool { return strings.HasPrefix(nv, name+"=") }), name+"="+fmt.Sprint(v[name]))
		}
	} else if _, there := o["env"]; there {
		return nil, "", errors.New("env must be an object of variables")
	}
	delete(o, "env")
	var words []string
	if v, ok := o["args"].([]any); ok {
		for _, a := range v {
			words = append(words, fmt.Sprint(a))
		}
	} else if _, there := o["args"]; there {
		return nil, "", errors.New("args must be a list")
	}
	delete(o, "args")
	var args []string
	for _, key := range slices.Sorted(maps.Keys(o)) {
		values, several := o[key].([]any)
		if !several {
			values = []any{o[key]}
		}
		for _, v := range values {
			switch v := v.(type) {
			case bool:
				if v {
					args = append(args, "--"+key)
				}
			case string:
				args = append(args, "--"+key+"="+v)
			case json.Number:
				args = append(args, "--"+key+"="+v.String())
			default:
				return nil, "", fmt.Errorf("%s must be a string, a number, true, or a list of these", key)
			}
		}
	}
	_, wrapped := o["wrap"]
	switch {
	case inline && (named || wrapped) || named && wrapped:
		return nil, "", errors.New("give one of script, file and wrap")
	case inline:
		args = append(args, "--", "script")
	case named:
		args = append(args, "--", file)
	case !wrapped:
		return nil, "", errors.New("there is no script: give script (its text), file (its path) or wrap (a command)")
	}
	if !wrapped {
		args = append(args, words...)
	}
	s, err := slurm.Sbatch(slurm.SbatchInput{
		Args: args, Environ: environ, Dir: b.World.Dir, Now: b.World.Now, Release: b.release,
		Read: func(path string) ([]byte, string, error) {
			if inline && path == "script" {
				return []byte(script), "", nil
			}
			return readScript(b.World, path)
		},
	})
	if err != nil {
		return nil, "", err
	}
	if s.Print != "" {
		return nil, "", errors.New("that asks for help, not for a job")
	}
	s.Spec.Umask, s.Spec.Rlimits = b.umask, rlimits(s.Propagate)
	if file != "" && !filepath.IsAbs(file) {
		file = filepath.Join(b.World.Dir, file)
	}
	return &wire.Job{Components: []*wire.Component{{Spec: s.Spec, Script: s.Script, Environment: joinEnviron(s.Environ)}}}, strings.Join(s.Notes, "; "), nil
}

// flush submits what was gathered and prints the results.
func (b *Bulk) flush() error {
	req := &wire.Submit{}
	for _, l := range b.part {
		if l.job != nil {
			req.Jobs = append(req.Jobs, l.job)
		}
	}
	var verdicts []*wire.Verdict
	if len(req.Jobs) > 0 {
		var err error
		for {
			verdicts, err = b.conn.Submit(req)
			var no *wire.Refused
			if errors.As(err, &no) && no.Code == events.Code_RATE_LIMITED {
				b.World.pause()
				continue
			}
			break
		}
		if err != nil {
			return fmt.Errorf("lines %d to %d: %s", b.part[0].result.Line, b.part[len(b.part)-1].result.Line, why(err))
		}
	}
	for _, l := range b.part {
		if l.job != nil {
			v := verdicts[0]
			verdicts = verdicts[1:]
			l.result.Job = v.Job
			if v.Code != events.Code_OK {
				l.result.Job, l.result.Error = 0, refused(v.Code, v.Text)
			} else if v.Undecided {
				l.result.Note = "kept, and not judged yet"
			}
		}
		if l.result.Error != "" {
			b.refused++
		}
		b.done++
		if err := b.out.Encode(l.result); err != nil {
			return fmt.Errorf("printing the results: %w", err)
		}
	}
	b.part, b.bytes = nil, 0
	if b.Progress != nil {
		b.Progress(b.done, b.refused)
	}
	return nil
}
