package commands

import (
	"bufio"
	"io"

	"stint/cli/slurm/format"
)

// printJSON prints an answer as JSON: records under a key as they are made, and what is said of the answer. queue: it is
// about the queue, whose answers also say when it last changed.
func printJSON(w *World, key, cluster string, queue bool, n int, record func(int) any) int {
	j := newJSON(w, key)
	for i := range n {
		j.add(record(i))
	}
	return j.end(cluster, queue)
}

// jsonPrinter is an answer being printed, as JSON or as YAML.
type jsonPrinter struct {
	w    *World
	out  *bufio.Writer
	key  string
	any  bool
	text []byte // of the last record, to be used again
}

func newJSON(w *World, key string) *jsonPrinter {
	j := &jsonPrinter{w: w, key: key, out: bufio.NewWriterSize(w.Stdout, 64<<10)}
	if w.yaml {
		j.out.WriteString("%YAML 1.1\n---\n" + key + ":")
	} else {
		j.out.WriteString("{\n  \"" + key + "\": [")
	}
	return j
}

func (j *jsonPrinter) add(record any) {
	if j.w.yaml {
		j.any = true
		j.out.WriteString("\n- " + format.YAML(record, 1))
		return
	}
	if j.any {
		j.out.WriteByte(',')
	}
	j.any = true
	j.out.WriteString("\n    ")
	j.text = format.AppendJSON(j.text[:0], record, 2)
	j.out.Write(j.text)
}

func (j *jsonPrinter) end(cluster string, queue bool) int {
	meta := format.JSONMeta{Command: j.w.called, User: j.w.user(), Cluster: cluster, Release: j.w.Release()}
	now := j.w.Now.UnixMicro()
	switch {
	case j.w.yaml && !j.any:
		j.out.WriteString(" []\n" + format.YAMLTail(meta, now, queue))
	case j.w.yaml:
		j.out.WriteString("\n" + format.YAMLTail(meta, now, queue))
	case j.any:
		j.out.WriteString("\n  ]" + format.JSONTail(meta, now, queue))
	default:
		j.out.WriteString("]" + format.JSONTail(meta, now, queue))
	}
	if err := j.out.Flush(); err != nil {
		return 1
	}
	return 0
}

// printOne prints an answer that is one record as JSON.
func printOne(w *World, key, cluster string, record any) int {
	_, err := io.WriteString(w.Stdout, "{\n  \""+key+"\": "+format.JSON(record, 1)+format.JSONTail(format.JSONMeta{
		Command: w.called, User: w.user(), Cluster: cluster, Release: w.Release(),
	}, w.Now.UnixMicro(), false))
	if err != nil {
		return 1
	}
	return 0
}
