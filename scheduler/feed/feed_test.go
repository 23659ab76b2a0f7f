package feed

import (
	"fmt"
	"log/slog"
	"testing"

	"stint/events/bus"
	"stint/events/bus/mem"
)

// What somebody else has put among the job states says no place in the log, or one that the log does not have: the feed goes on
// from the last that does, behind all of it.
func TestFeedPassesOver(t *testing.T) {
	for _, c := range []struct {
		name string
		put  []string
		want place
	}{
		{"nothing", nil, place{}},
		{"its own", []string{`{"seq":1,"index":0}`, `{"seq":2,"index":3}`}, place{2, 3}},
		{"no JSON", []string{`{"seq":2,"index":1}`, "\x00\xff"}, place{2, 1}},
		{"nobody's JSON", []string{`{"seq":2,"index":1}`, `[]`, `{}`, `{"seq":"x"}`, `{"seq":-3}`}, place{2, 1}},
		{"a place behind the log's end", []string{`{"seq":1,"index":4}`, `{"seq":99999999,"index":0}`}, place{1, 4}},
		{"nothing else", []string{"a", "b"}, place{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := mem.New(mem.Options{}).Connect("feed")
			defer b.Close()
			for i := range 3 {
				if _, err := b.Events().Publish(t.Context(), "ev.intent.@h", fmt.Sprint(i), []byte("x")); err != nil {
					t.Fatal(err)
				}
			}
			var last uint64
			for _, data := range c.put {
				var err error
				if last, err = b.Jobs().Append(t.Context(), last, []bus.Entry{{Subject: "job.RUNNING.p.u.1", Data: []byte(data)}}); err != nil {
					t.Fatal(err)
				}
			}
			f := New(b.Jobs(), b.Events(), slog.New(slog.DiscardHandler))
			if err := f.look(t.Context()); err != nil {
				t.Fatal(err)
			}
			if f.done != c.want || f.last != last {
				t.Errorf("it goes on behind %+v, at %d; want %+v, %d", f.done, f.last, c.want, last)
			}
		})
	}
}
