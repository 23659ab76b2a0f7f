package integration

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// progress is the record of a campaign: one line a round, appended when the round is over, so that it goes on where it stopped.
type progress struct {
	t       *testing.T
	file    string // "": no record is kept
	servers int
	rounds  map[uint64]score
}

// score is what one round came to.
type score struct {
	servers  int
	seed     uint64
	ok       bool
	seconds  float64
	strikes  map[string]int // daemons killed, by kind
	asked    int            // submissions tried
	acked    int            // of them acknowledged
	jobs     int            // that ran, array tasks each
	lost     int            // acknowledged and lost
	twice    int            // run twice
	wrong    int            // otherwise than the script says
	unseen   int            // ends that nobody saw, their supervisor being dead
	messages int            // of the log, folded and decided again
}

// scoreFormat is the order of a line's words; the last is strikes, as kind=number with commas between.
const scoreFormat = "servers=%d seed=%d ok=%t seconds=%.1f asked=%d acked=%d jobs=%d lost=%d twice=%d wrong=%d unseen=%d messages=%d strikes="

func (s score) String() string {
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(s.strikes)) {
		list = append(list, fmt.Sprintf("%s=%d", kind, s.strikes[kind]))
	}
	return fmt.Sprintf(scoreFormat, s.servers, s.seed, s.ok, s.seconds, s.asked, s.acked, s.jobs, s.lost, s.twice, s.wrong, s.unseen, s.messages) + strings.Join(list, ",")
}

func parseScore(line string) (s score, err error) {
	head, strikes, _ := strings.Cut(strings.TrimSpace(line), "strikes=")
	_, err = fmt.Sscanf(head+"strikes=", strings.Replace(scoreFormat, "%.1f", "%f", 1), &s.servers, &s.seed, &s.ok, &s.seconds, &s.asked, &s.acked, &s.jobs, &s.lost, &s.twice, &s.wrong, &s.unseen, &s.messages)
	s.strikes = map[string]int{}
	for word := range strings.SplitSeq(strikes, ",") {
		if kind, n, ok := strings.Cut(word, "="); ok {
			s.strikes[kind], _ = strconv.Atoi(n)
		}
	}
	return s, err
}

// openProgress reads the record that STINT_CAMPAIGN names, if it does.
func openProgress(t *testing.T, servers int) *progress {
	t.Helper()
	p := &progress{t: t, file: os.Getenv("STINT_CAMPAIGN"), servers: servers, rounds: map[uint64]score{}}
	if p.file == "" {
		return p
	}
	data, err := os.ReadFile(p.file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		s, err := parseScore(line)
		if err != nil {
			t.Fatalf("%s has %q: %v", p.file, line, err)
		}
		if s.servers == servers {
			p.rounds[s.seed] = s
		}
	}
	return p
}

func (p *progress) done(seed uint64) bool { _, is := p.rounds[seed]; return is }

// stopped says whether somebody asked for an end.
func (p *progress) stopped() bool {
	if p.file == "" {
		return false
	}
	_, err := os.Stat(p.file + ".stop")
	return err == nil
}

// run makes one round and writes down what it came to, also if it fails half way.
func (p *progress) run(k *campaign, seed uint64) {
	begun := time.Now()
	k.score = score{servers: p.servers, seed: seed, strikes: map[string]int{}}
	defer func() {
		k.score.ok, k.score.seconds = !k.t.Failed(), time.Since(begun).Seconds()
		k.t.Log(k.score)
		p.add(k)
	}()
	k.round(seed)
}

func (p *progress) add(k *campaign) {
	s := k.score
	p.rounds[s.seed] = s
	if p.file == "" {
		return
	}
	f, err := os.OpenFile(p.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, s); err != nil {
		p.t.Fatal(err)
	}
	if !s.ok { // for whoever looks into it
		os.CopyFS(fmt.Sprintf("%s.%d.%d", p.file, p.servers, s.seed), os.DirFS(filepath.Join(k.dir, "log")))
	}
	os.WriteFile(p.file+".md", []byte(table(slices.Collect(maps.Values(p.rounds)))), 0o644)
}

// table is the record as docs/reliability.md has it.
func table(rounds []score) string {
	var sum score
	kinds := map[string]int{}
	failed := []uint64{}
	low, high := ^uint64(0), uint64(0)
	for _, s := range rounds {
		low, high = min(low, s.seed), max(high, s.seed)
		sum.servers = s.servers
		sum.seconds += s.seconds
		sum.asked += s.asked
		sum.acked += s.acked
		sum.jobs += s.jobs
		sum.lost += s.lost
		sum.twice += s.twice
		sum.wrong += s.wrong
		sum.unseen += s.unseen
		sum.messages += s.messages
		for kind, n := range s.strikes {
			kinds[kind] += n
		}
		if !s.ok {
			failed = append(failed, s.seed)
		}
	}
	slices.Sort(failed)
	struck := 0
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		struck += kinds[kind]
		list = append(list, fmt.Sprintf("%s %d", kind, kinds[kind]))
	}
	var b strings.Builder
	b.WriteString("| servers | rounds (seeds) | processes struck | jobs | acknowledged | lost | run twice | otherwise wrong | ends unseen | rounds that failed |\n|---|---|---|---|---|---|---|---|---|---|\n")
	fmt.Fprintf(&b, "| %d | %d (%d-%d) | %d: %s | %d | %d of %d | %d | %d | %d | %d | %d %v |\n", sum.servers, len(rounds), low, high, struck, strings.Join(list, ", "),
		sum.jobs, sum.acked, sum.asked, sum.lost, sum.twice, sum.wrong, sum.unseen, len(failed), failed)
	return b.String()
}

// A record says again what was written into it.
func TestProgress(t *testing.T) {
	s := score{servers: 3, seed: 7, ok: true, seconds: 1.5, strikes: map[string]int{"bus": 2, "up": 1}, asked: 9, acked: 8, jobs: 30, lost: 1, twice: 2, wrong: 3, unseen: 4, messages: 5}
	got, err := parseScore(s.String() + "\n")
	if err != nil || got.String() != s.String() {
		t.Errorf("%v: %s is read as %s", err, s, got)
	}
}
