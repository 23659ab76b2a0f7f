package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Daemons are killed with SIGKILL while jobs are submitted, start and end: each of them and all at once, the agent, the bus,
// `stint up` and the supervisors not spared. What the scripts wrote themselves says what really happened, and everything that
// Stint says must agree with it:
//
//   - a submission that was acknowledged is not lost, its id is nobody else's, and it is in accounting under it;
//   - no script ran twice, and none ran that accounting does not know;
//   - each exit code and signal is what the script ended with. Only the death of a node's supervisor may hide one, of a job
//     that was alive there at that moment, and it is then an end of its own, never success;
//   - what jobs wrote is complete, and the CPU time and the times that accounting has of them are those that they had;
//   - each job's states are in the feed for services once, and end with the one that accounting has;
//   - the log folds to the live state, and its decisions come out the same, after every round.
//
// Fifteen seeds are fifteen rounds, on clusters that live through five of them each. STINT_SEED=N is one round alone. A campaign
// is `STINT_CAMPAIGN=FILE STINT_SEEDS=1-1000`: each round leaves a line in the file, those that have one are not made again, and
// the table made of all of them is in FILE.md; when there is a FILE.stop it ends after the present cluster. STINT_SOAK=1 makes a thousand.
func TestKill(t *testing.T) { killEach(t, 1, seedsOf(t, 15, 985)) }

// The same on a bus of three servers, of which each, two and all are killed, and the one that leads is stopped for a while: its
// followers elect another, and it wakes.
func TestKillThree(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers and kills them: left out with -short")
	}
	killEach(t, 3, seedsOf(t, 3, 47))
}

// perCluster is how many rounds a cluster lives through: its history is part of what is tried.
const perCluster = 5

// seedsOf are the seeds that are asked for: without words, the first few; and so many more in a soak.
func seedsOf(t *testing.T, few, more uint64) (seeds []uint64) {
	t.Helper()
	from, to := uint64(1), few
	if testing.Short() {
		to = min(few, perCluster)
	}
	if os.Getenv("STINT_SOAK") != "" {
		to += more
	}
	parse := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if v := os.Getenv("STINT_SEEDS"); v != "" {
		first, last, _ := strings.Cut(v, "-")
		from, to = parse(first), parse(last)
	}
	if v := os.Getenv("STINT_SEED"); v != "" {
		from, to = parse(v), parse(v)
	}
	for s := from; s <= to; s++ {
		seeds = append(seeds, s)
	}
	return seeds
}

// killEach makes the rounds of the seeds that are not done yet, on a bus of so many servers.
func killEach(t *testing.T, servers int, seeds []uint64) {
	progress := openProgress(t, servers)
	for {
		seeds = slices.DeleteFunc(seeds, progress.done)
		if len(seeds) == 0 || progress.stopped() {
			return
		}
		part := seeds[:min(perCluster, len(seeds))]
		for i, s := range part { // a cluster begins where a tidy one would, so that a seed meets the same kind again
			if i > 0 && (s-1)%perCluster == 0 {
				part = part[:i]
				break
			}
		}
		t.Run(fmt.Sprintf("seeds %d-%d", part[0], part[len(part)-1]), func(t *testing.T) {
			k := newCampaign(t, servers, part[0])
			for _, seed := range part {
				progress.run(k, seed)
				if t.Failed() {
					t.Fatalf("STINT_SEED=%d", seed)
				}
			}
			k.conclude()
		})
		if progress.file == "" {
			seeds = seeds[len(part):] // a failure is not tried again
		}
	}
}

// newCampaign starts a cluster to be struck. Every fourth has bus, controller, agent and ledger in one process, which die together.
func newCampaign(t *testing.T, servers int, seed uint64) *campaign {
	k := &campaign{how: []string{"--split"}, ids: map[string]string{}}
	if (seed-1)/perCluster%4 == 3 && servers == 1 {
		k.how = nil
	}
	k.cluster = planned(t)
	options := append(k.how, "--nodes", "n[1-3]", "--cpus", "3", "--memory", "4000", "--gres", "gpu:a100:2")
	if servers == 3 {
		k.bus = startServers(t, filepath.Dir(k.dir), filepath.Join(k.dir, "keys"), "n1", "n2", "n3")
		k.last = append(k.last, k.bus.stop)
		options = append(options, "--bus", k.bus.urls())
	}
	k.up(options...)
	for _, sub := range []string{"ran", "out"} {
		if err := os.Mkdir(filepath.Join(k.work, sub), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	k.script("job.sh", doomedScript)
	return k
}

// doomedScript says what it does where nobody but the script writes: when it begins, and when it is about to end, and what CPU
// time the shell has had by then, in nanoseconds.
const doomedScript = `#!/bin/sh
[ -z "$SLURM_ARRAY_TASK_ID" ] || set -- "$1.$SLURM_ARRAY_TASK_ID" "$2" "$3" "$SLURM_ARRAY_TASK_ID"
echo "begin $SLURM_JOB_ID $(date +%s.%N) 0" >> "ran/$1"
echo "first of $1"
sleep "$2"
i=0; while [ $i -lt 100 ]; do echo "line $i of $1"; i=$((i+1)); done
echo "last of $1"
read cpu rest < /proc/$$/schedstat
echo "end $SLURM_JOB_ID $(date +%s.%N) $cpu" >> "ran/$1"
case $3 in
exit) exit "$4" ;;
kill) kill -"$4" $$ ;;
esac
`

func doomedOutput(tag string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "first of %s\n", tag)
	for i := range 100 {
		fmt.Fprintf(&b, "line %d of %s\n", i, tag)
	}
	fmt.Fprintf(&b, "last of %s\n", tag)
	return b.String()
}

// doomed is one submission.
type doomed struct {
	tag    string
	id     string // as acknowledged; empty: it was not
	args   []string
	tasks  int
	cancel bool
	state  string // what must come of it
	code   string
}
