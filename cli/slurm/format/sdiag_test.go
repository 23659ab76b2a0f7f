package format

import (
	"strings"
	"testing"

	"stint/cli/slurm"
	"stint/projections"
)

func TestSdiag(t *testing.T) {
	d := &Diagnosis{
		AnswerStats: &projections.AnswerStats{
			SinceUs: 1796046796e6, Submitted: 19, Started: 7, Completed: 1, Pending: 12, Running: 6, Backfilled: 2, BackfilledSince: 1, Held: 6,
			Passes:   &projections.Passes{Count: 6, Last: 40, Most: 3445, Sum: 3594, DepthSum: 18, Queue: 5},
			Backfill: &projections.Passes{LastUs: 1796046855e6},
		},
		NowUs: 1796046860e6, Release: slurm.Release2205, Serving: 3, ClockUs: 21,
		Kinds: []Calls{{"REQUEST_PING", 1008, 4, 598, 0}, {"REQUEST_JOB_INFO", 2003, 255, 85740, 0}, {"REQUEST_BUILD_INFO", 2001, 1, 299, 0}},
		Users: []Calls{{"root", 0, 1, 143, 0}},
	}
	d.Sort(0)
	text := d.Text()
	for _, want := range []string{
		"\nsdiag output at Mon Nov 30 13:54:20 2026 (1796046860)\nData since      Mon Nov 30 13:53:16 2026 (1796046796)\n", "\nServer thread count:  3\nAgent queue size:     0\n",
		"\nJobs submitted: 19\nJobs started:   7\nJobs completed: 1\nJobs canceled:  0\nJobs failed:    0\n", "\n\tLast cycle:   40\n\tMax cycle:    3445\n\tTotal cycles: 6\n\tMean cycle:   599\n\tMean depth cycle:  3\n\tCycles per minute: 6\n\tLast queue length: 5\n\nBackfilling stats\n",
		"\tTotal backfilled jobs (since last slurm start): 2\n\tTotal backfilled jobs (since last stats cycle start): 1\n", "\tLast depth cycle (try sched): 0\n\tLast queue length: 0\n\tLast table size: 6\n\nLatency for 1000 calls to gettimeofday(): 21 microseconds\n",
		"by message type\n\tREQUEST_JOB_INFO                        ( 2003) count:255    ave_time:336    total_time:85740\n\tREQUEST_PING                            ( 1008) count:4      ave_time:149    total_time:598\n",
		"\n\troot            (       0) count:1      ave_time:143    total_time:143\n\nPending RPC statistics\n\tNo pending RPCs\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	order := func(by byte) (names string) {
		d.Sort(by)
		for _, c := range d.Kinds {
			names += c.Name[8:] + " "
		}
		return names
	}
	for by, want := range map[byte]string{'i': "PING BUILD_INFO JOB_INFO ", 't': "JOB_INFO PING BUILD_INFO ", 'T': "JOB_INFO BUILD_INFO PING "} {
		if got := order(by); got != want {
			t.Errorf("by %c: %s", by, got)
		}
	}
	d.Release = slurm.Release2605
	if text := d.Text(); !strings.Contains(text, "\nMain scheduler exit:\n\tEnd of job queue: 6\n") || !strings.Contains(JSON(d.JSON(), 0), `"schedule_cycle_mean": 599`) {
		t.Errorf("of 26.05:\n%s", text)
	}
}
