// Command history fills a cluster's folder as if a great many jobs had run there, for measuring a cluster that is not new:
//
//	go run ./integration/bench/history -dir D -jobs 1000000
//	stint up --dir D --config slurm.conf --virtual --detach
//
// The folder must not be in use, and may be that of a cluster that ran before. All streams are filled.
package main

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

func main() {
	var o Options
	flag.StringVar(&o.Dir, "dir", "", "the `FOLDER` of the cluster")
	flag.IntVar(&o.Jobs, "jobs", 1_000_000, "how many jobs ran, a `NUMBER`")
	flag.Uint64Var(&o.Seed, "seed", 1, "of what the jobs are: a `NUMBER`")
	flag.Parse()
	if o.Dir == "" || o.Jobs < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "history: give the folder of the cluster with -dir, and a number of jobs above 0 with -jobs")
		os.Exit(2)
	}
	o.Progress = func(jobs int) { fmt.Fprintf(os.Stderr, "\r%d jobs ", jobs) }
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	begun := time.Now()
	made, err := Make(ctx, o)
	fmt.Fprintln(os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "history:", err)
		os.Exit(1)
	}
	fmt.Printf("%d jobs in %d messages of EVENTS and %d of JOBS, made in %.0f s with seed %d\n", o.Jobs, made.Messages, made.States, time.Since(begun).Seconds(), o.Seed)
	for _, stream := range []string{"EVENTS", "JOBS", "USAGE", "BLOBS"} {
		fmt.Printf("%-7s %d MiB\n", stream, size(filepath.Join(o.Dir, "bus", "jetstream"), stream)>>20)
	}
}

// size is how many bytes the files of a stream have.
func size(root, stream string) (n int64) {
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		for p := filepath.Dir(path); len(p) > len(root); p = filepath.Dir(p) {
			if filepath.Base(p) == stream {
				if info, err := d.Info(); err == nil {
					n += info.Size()
				}
				return nil
			}
		}
		return nil
	})
	return n
}
