package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"stint/events/bus"
	"stint/events/bus/mem"
	"stint/projections"
)

// forgetful is a feed whose last entries are lost.
type forgetful struct {
	list []bus.Message
}

func (f *forgetful) Last(ctx context.Context) (bus.Message, error) {
	return f.Get(ctx, uint64(len(f.list)))
}

func (f *forgetful) Get(_ context.Context, seq uint64) (bus.Message, error) {
	if seq == 0 || seq > uint64(len(f.list)) {
		return bus.Message{}, bus.ErrNotFound
	}
	return f.list[seq-1], nil
}

func (f *forgetful) Append(_ context.Context, after uint64, entries []bus.Entry) (uint64, error) {
	if after != uint64(len(f.list)) {
		return 0, &bus.DeposedError{Found: uint64(len(f.list))}
	}
	for _, e := range entries {
		f.list = append(f.list, bus.Message{Seq: uint64(len(f.list) + 1), Subject: e.Subject, Data: e.Data})
	}
	return uint64(len(f.list)), nil
}

func (f *forgetful) Follow(context.Context, string, uint64, func(bus.Batch) error) error { return nil }

// endless is a log that has all places.
type endless struct{}

func (endless) Bounds(context.Context) (first, last uint64, err error) { return 1, 1 << 40, nil }

// A bus that is killed may lose the last job states that it had acknowledged: they are put there again as soon as it is back, though
// nothing new happens, each once, and are not told of twice.
func TestFeedThatLosesItsEnd(t *testing.T) {
	for lost := range 6 {
		stream := &forgetful{}
		f := New(stream, endless{}, slog.New(slog.DiscardHandler))
		var told []uint64
		f.Told = func(list []projections.JobEvent) {
			for _, e := range list {
				told = append(told, e.Seq)
			}
		}
		if err := f.Begin(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		f.Lead(true)
		add := func(seqs ...uint64) {
			for _, seq := range seqs {
				data, err := json.Marshal(place{Seq: seq})
				if err != nil {
					t.Fatal(err)
				}
				f.Add([]projections.JobEvent{{Seq: seq, Subject: "job.RUNNING.p.u.1", Data: data}})
			}
			for f.Part(t.Context()) {
			}
		}
		add(1, 2, 3)
		add(4, 5)
		stream.list = stream.list[:5-lost]
		f.Back()
		add()
		var have []uint64
		for _, m := range stream.list {
			var at place
			if err := json.Unmarshal(m.Data, &at); err != nil {
				t.Fatal(err)
			}
			have = append(have, at.Seq)
		}
		add(6)
		if want := []uint64{1, 2, 3, 4, 5}; !slices.Equal(have, want) || len(stream.list) != 6 {
			t.Errorf("after %d were lost the stream has %v, want %v, and %d with the next", lost, have, want, len(stream.list))
		}
		if want := []uint64{1, 2, 3, 4, 5, 6}; !slices.Equal(told, want) {
			t.Errorf("after %d were lost it tells of %v, want %v", lost, told, want)
		}
	}
}

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
