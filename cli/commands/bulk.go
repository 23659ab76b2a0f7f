package commands

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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
	conn     *wire.Conn
	out      *bufio.Writer
	umask    uint32
	release  slurm.Release
	limits   map[string][]*events.Rlimit // by what is asked to be passed on
	scripts  map[string]*bulkScript      // by the name they are asked for by
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

// bulkPart is what goes into one request.
type bulkPart struct {
	lines []*bulkLine
	texts [][]byte          // scripts and environments, equal ones once
	known map[string]uint32 // which of them, from 1
	bytes int               // of texts
}

// bulkScript is a file with a script, as it was when it was read.
type bulkScript struct {
	text  []byte
	found string
	info  os.FileInfo
}

const (
	bulkLines = 1000    // jobs of one request
	bulkBytes = 8 << 20 // of scripts and environments of one request
)

// Run reads all lines and prints one result for each, in order. While one part is on its way the next is read; what was not
// sent when one fails is not sent at all. It returns how many were refused; the error is for input or a cluster that fails altogether.
func (b *Bulk) Run() (refused int, err error) {
	b.conn, err = b.World.dial("stint submit")
	if err != nil {
		return 0, errors.New(why(err))
	}
	defer b.conn.Close()
	b.out = bufio.NewWriterSize(b.World.Stdout, 1<<16)
	b.umask, b.release = umask(), b.World.Release()
	parts, over := make(chan *bulkPart), make(chan error, 1)
	failed := make(chan struct{})
	go func() {
		var err error
		for p := range parts {
			if err == nil {
				if err = b.send(p); err != nil {
					close(failed)
				}
			}
		}
		over <- err
	}()
	err = b.read(parts, failed)
	close(parts)
	if serr := <-over; serr != nil {
		err = serr
	}
	return b.refused, err
}

// read makes parts of the input, until it ends or failed is closed.
func (b *Bulk) read(parts chan<- *bulkPart, failed <-chan struct{}) error {
	r := bufio.NewReaderSize(b.In, 1<<16)
	p := &bulkPart{}
	flush := func() bool {
		if len(p.lines) == 0 {
			return true
		}
		select {
		case parts <- p:
			p = &bulkPart{}
			return true
		case <-failed:
			return false
		}
	}
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			b.add(p, n, line)
			if (len(p.lines) >= bulkLines || p.bytes >= bulkBytes) && !flush() {
				return nil
			}
		}
		if err != nil {
			flush()
			if !errors.Is(err, io.EOF) {
				return fmt.Errorf("reading line %d: %w", n, err)
			}
			return nil
		}
	}
}

func (b *Bulk) add(p *bulkPart, n int, line []byte) {
	l := &bulkLine{result: BulkResult{Line: n}}
	job, note, err := b.parse(line)
	l.result.Note = note
	if err != nil {
		l.result.Error = err.Error()
	} else {
		l.job = job
		for _, c := range job.Components {
			c.ScriptText, c.Script = p.text(c.Script), nil
			c.EnvironmentText, c.Environment = p.text(c.Environment), nil
		}
	}
	p.lines = append(p.lines, l)
}

// text takes a script or an environment into the part and says which of its texts that is; 0: none, it is empty.
func (p *bulkPart) text(t []byte) uint32 {
	if len(t) == 0 {
		return 0
	}
	if i := p.known[string(t)]; i > 0 {
		return i
	}
	if p.known == nil {
		p.known = map[string]uint32{}
	}
	p.texts = append(p.texts, t)
	p.bytes += len(t)
	p.known[string(t)] = uint32(len(p.texts))
	return uint32(len(p.texts))
}

// script is readScript for a file that many lines name: it is read again when it has changed.
func (b *Bulk) script(path string) ([]byte, string, error) {
	if s := b.scripts[path]; s != nil {
		if info, err := os.Stat(s.found); err == nil && os.SameFile(info, s.info) && info.Size() == s.info.Size() && info.ModTime().Equal(s.info.ModTime()) {
			return s.text, s.found, nil
		}
	}
	text, found, err := readScript(b.World, path)
	if err != nil || found == "" {
		return text, found, err
	}
	// One that was written just now may be written again at what its file system takes for the same time.
	if info, err := os.Stat(found); err == nil && info.Size() == int64(len(text)) && b.World.Now.Sub(info.ModTime()) > time.Second {
		if b.scripts == nil || len(b.scripts) >= 1000 {
			b.scripts = map[string]*bulkScript{}
		}
		b.scripts[path] = &bulkScript{text, found, info}
	}
	return text, found, nil
}

// rlimits are this process's, which stay as they are.
func (b *Bulk) rlimits(propagate string) []*events.Rlimit {
	out, known := b.limits[propagate]
	if !known {
		if b.limits == nil {
			b.limits = map[string][]*events.Rlimit{}
		}
		out = rlimits(propagate)
		b.limits[propagate] = out
	}
	return out
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
			return b.script(path)
		},
	})
	if err != nil {
		return nil, "", err
	}
	if s.Print != "" {
		return nil, "", errors.New("that asks for help, not for a job")
	}
	s.Spec.Umask, s.Spec.Rlimits = b.umask, b.rlimits(s.Propagate)
	if file != "" && !filepath.IsAbs(file) {
		file = filepath.Join(b.World.Dir, file)
	}
	return &wire.Job{Components: []*wire.Component{{Spec: s.Spec, Script: s.Script, Environment: joinEnviron(s.Environ)}}}, strings.Join(s.Notes, "; "), nil
}

// send submits a part and prints the results.
func (b *Bulk) send(p *bulkPart) error {
	req := &wire.Submit{Texts: p.texts}
	for _, l := range p.lines {
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
			return fmt.Errorf("lines %d to %d: %s", p.lines[0].result.Line, p.lines[len(p.lines)-1].result.Line, why(err))
		}
	}
	out := json.NewEncoder(b.out)
	for _, l := range p.lines {
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
		if err := out.Encode(l.result); err != nil {
			return fmt.Errorf("printing the results: %w", err)
		}
	}
	if err := b.out.Flush(); err != nil {
		return fmt.Errorf("printing the results: %w", err)
	}
	if b.Progress != nil {
		b.Progress(b.done, b.refused)
	}
	return nil
}
