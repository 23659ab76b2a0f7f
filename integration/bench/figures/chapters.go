package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// small measures on four nodes of eight CPUs: one submission and many, jobs, and then a queue that gets long.
func (b *bench) small() error {
	real, own, err := b.start("tuned-acct", 4, b.tuned(8), "--virtual", "--split")
	if err != nil {
		return err
	}
	idle := map[string]float64{}
	if err := b.submitting(real, own); err != nil {
		return err
	}
	if wanted("rate") {
		if err := b.rate("rate", real, own, 2000, 400); err != nil {
			return err
		}
	}
	if wanted("wait") {
		if err := b.waiting(real, own); err != nil {
			return err
		}
	}
	for _, k := range []string{"submit", "squeue10", "memory", "squeue50", "kill", "scancel", "sacct", "sacctj"} {
		if wanted(k) {
			return b.long(real, own, idle)
		}
	}
	return nil
}

// both are the sides that are up.
func both(real, own *side) []*side {
	if real == nil {
		return []*side{own}
	}
	return []*side{real, own}
}

// tuned is the configuration of the real one's profile tuned-acct as Stint reads it, with nodes of some CPUs.
func (b *bench) tuned(cpus int) string {
	return fmt.Sprintf(`SlurmCompat=22.05
ClusterName=figures
SlurmctldHost=localhost
MinJobAge=2
MaxJobCount=200000
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
AccountingStorageType=accounting_storage/slurmdbd
NodeName=n[1-4] CPUs=%d CoresPerSocket=%d RealMemory=16000
PartitionName=compute Nodes=n[1-4] Default=YES MaxTime=UNLIMITED State=UP
PartitionName=closed Nodes=n[1-4] MaxTime=UNLIMITED State=DOWN
`, cpus, cpus)
}

// submitting measures single submissions, in turn on the two, and eight at once. The partition is down: nothing is started meanwhile.
func (b *bench) submitting(real, own *side) error {
	if !wanted("sbatch") && !wanted("parallel") {
		return nil
	}
	for _, s := range both(real, own) {
		if _, err := s.do("scontrol", "update", "partitionname=compute", "state=down"); err != nil {
			return err
		}
		defer s.do("scontrol", "update", "partitionname=compute", "state=up")
		defer s.do("scancel", "-u", "root")
	}
	sbatch := []string{"sbatch", "-Q", "-n1", "--mem=10", "-t60", "-o/dev/null", filepath.Join(b.dir, "job.sh")}
	walls, cpus, rates, faults, daemons := map[*side][]float64{}, map[*side][]float64{}, map[*side][]float64{}, map[*side]float64{}, map[*side]float64{}
	for range 5 {
		for _, s := range both(real, own) {
			m, err := s.measure(40, 1, sbatch...)
			if err != nil {
				return err
			}
			walls[s], cpus[s], faults[s] = append(walls[s], m.Walls...), append(cpus[s], m.CPU...), m.Faults
			if m.Failed > 0 {
				return fmt.Errorf("%s: %d of 40 submissions failed", s.name, m.Failed)
			}
			if m, err = s.measure(b.count(400), 8, sbatch...); err != nil {
				return err
			}
			rates[s], daemons[s] = append(rates[s], m.rate()), m.Daemons
		}
	}
	cells, rcells := map[*side]string{}, map[*side]string{}
	for _, s := range both(real, own) {
		for _, m := range []map[*side][]float64{walls, cpus, rates} {
			slices.Sort(m[s])
		}
		cells[s] = fmt.Sprintf("%.1f ms; %.1f ms (%.0f page faults)", middle(walls[s]), middle(cpus[s]), faults[s])
		rcells[s] = fmt.Sprintf("%.0f (daemons %.1f ms CPU each)", middle(rates[s]), daemons[s])
	}
	floor, err := b.floor(own)
	if err != nil {
		return err
	}
	one, many := row{Key: "sbatch", Stint: cells[own]}, row{Key: "parallel", Stint: rcells[own] + floor}
	if real != nil {
		one.Slurm, many.Slurm = cells[real], rcells[real]
		one.Ratio = fmt.Sprintf("%.2f; %.2f", middle(walls[own])/middle(walls[real]), middle(cpus[own])/middle(cpus[real]))
		many.Ratio = fmt.Sprintf("%.2f", middle(rates[own])/middle(rates[real]))
	}
	b.add(one)
	b.add(many)
	return nil
}

// rate measures jobs from the resumption of the nodes, which places the first of those that wait, to the last row that accounting
// has; and beside it a loop that starts the same script with an output file, one after another.
func (b *bench) rate(key string, real, own *side, jobs, realJobs int) error {
	r := row{Key: key}
	var rates = map[*side]float64{}
	for _, s := range both(real, own) {
		n := b.count(jobs)
		if s == real {
			n = b.count(realJobs)
		}
		rate, err := b.jobs(s, n)
		if err != nil {
			return err
		}
		rates[s] = rate
	}
	loop, err := b.bare(own)
	if err != nil {
		return err
	}
	r.Stint = fmt.Sprintf("%.0f (%.0f; %.2f of it)", rates[own], loop, rates[own]/loop)
	if real != nil {
		r.Slurm, r.Ratio = fmt.Sprintf("%.0f", rates[real]), fmt.Sprintf("%.1f", rates[own]/rates[real])
	}
	b.add(r)
	return nil
}

// jobs is the rate of jobs of one side.
func (b *bench) jobs(s *side, n int) (float64, error) {
	name := fmt.Sprintf("rate%d", time.Now().UnixNano()%1e9)
	work := filepath.Join(b.dir, name)
	if err := os.Mkdir(work, 0o755); err != nil {
		return 0, err
	}
	defer os.RemoveAll(work)
	if _, err := s.do("scontrol", "update", "nodename=n[1-4]", "state=drain", "reason=measuring"); err != nil {
		return 0, err
	}
	m, err := s.measure(n, 8, "sbatch", "-Q", "-n1", "--mem=10", "-t60", "-D", work, "-J", name, filepath.Join(b.dir, "job.sh"))
	if err != nil {
		return 0, err
	}
	if m.Failed > 0 {
		return 0, fmt.Errorf("%s: %d of %d submissions failed", s.name, m.Failed, n)
	}
	begun := time.Now()
	if _, err := s.do("scontrol", "update", "nodename=n[1-4]", "state=resume"); err != nil {
		return 0, err
	}
	limit := 20 * time.Minute
	if err := s.until(limit, func(out string) bool { return strings.TrimSpace(out) == "" }, "squeue", "-h", "-n", name, "-o", "%i", "-t", "PD,R,CG"); err != nil {
		return 0, err
	}
	done := func(out string) bool { return strings.Count(out, "COMPLETED") == n }
	if err := s.until(limit, done, "sacct", "-X", "-n", "--name="+name, "-o", "State"); err != nil {
		return 0, err
	}
	took := time.Since(begun).Seconds()
	if files, _ := filepath.Glob(filepath.Join(work, "slurm-*.out")); len(files) != n {
		return 0, fmt.Errorf("%s: %d jobs left %d output files", s.name, n, len(files))
	}
	return float64(n) / took, nil
}

// bare is how many scripts a second a loop of bash starts, one after another, each with an output file.
func (b *bench) bare(s *side) (float64, error) {
	const n = 500
	work := filepath.Join(b.dir, "bare")
	if err := os.Mkdir(work, 0o755); err != nil {
		return 0, err
	}
	defer os.RemoveAll(work)
	t := time.Now()
	_, err := s.do("bash", "-c", fmt.Sprintf("for ((i = 0; i < %d; i++)); do %s/job.sh >%s/$i; done", n, b.dir, work))
	return n / time.Since(t).Seconds(), err
}

// wide is the rate on nodes that have room for all.
func (b *bench) wide() error {
	real, own, err := b.start("", 0, b.tuned(128), "--virtual")
	if err != nil {
		return err
	}
	if b.oracle != "" {
		if real, err = b.startReal("tuned-acct", 4, 128); err != nil {
			return err
		}
	}
	return b.rate("rate128", real, own, 2000, 400)
}

// waiting measures a job from its submission to the return of who waits for it.
func (b *bench) waiting(real, own *side) error {
	cells, mid := map[*side]string{}, map[*side]float64{}
	for _, s := range both(real, own) {
		n := 20
		if s == real {
			n = 5
		}
		m, err := s.measure(n, 1, "sbatch", "-Q", "--wait", "-o/dev/null", "--wrap", "true")
		if err != nil {
			return err
		}
		mid[s] = middle(m.Walls)
		cells[s] = fmt.Sprintf("%.0f ms", mid[s])
	}
	r := row{Key: "wait", Stint: cells[own]}
	if real != nil {
		r.Slurm, r.Ratio = cells[real], fmt.Sprintf("%.3f", mid[own]/mid[real])
	}
	b.add(r)
	return nil
}

// long fills the queues and measures on them.
func (b *bench) long(real, own *side, idle map[string]float64) error {
	for _, s := range both(real, own) {
		idle[s.name], idle[s.name+" all"] = resident(s.controller()), residents(s)
	}
	fill := map[*side]func(n int) (float64, error){own: func(n int) (float64, error) { return b.fillOwn(own, n) }}
	if real != nil {
		fill[real] = func(n int) (float64, error) { return b.restFill(real, n) }
	}
	ten, fifty := b.count(10000), b.count(50000)
	rates := map[*side]float64{}
	for _, s := range both(real, own) {
		if _, err := fill[s](ten); err != nil {
			return err
		}
	}
	if err := b.compare("squeue10", real, own, 5, "squeue"); err != nil {
		return err
	}
	for _, s := range both(real, own) {
		rate, err := fill[s](fifty - ten)
		if err != nil {
			return err
		}
		rates[s] = rate
	}
	r := row{Key: "submit", Stint: fmt.Sprintf("%.0f", rates[own])}
	if real != nil {
		r.Slurm, r.Ratio = fmt.Sprintf("%.0f", rates[real]), fmt.Sprintf("%.0f", rates[own]/rates[real])
	}
	b.add(r)
	if wanted("memory") {
		time.Sleep(20 * time.Second) // what they keep, not what a burst took
	}
	above := func(s *side) string {
		return fmt.Sprintf("%.0f MB (all daemons %.0f)", resident(s.controller())-idle[s.name], residents(s)-idle[s.name+" all"])
	}
	r = row{Key: "memory", Stint: above(own)}
	if real != nil {
		r.Slurm = above(real)
	}
	b.add(r)
	if err := b.compare("squeue50", real, own, 5, "squeue"); err != nil {
		return err
	}
	if wanted("kill") {
		if err := b.kill(real, own); err != nil {
			return err
		}
	}
	return b.cancel(real, own)
}

// fillOwn submits jobs of one connection to a partition that is down, and returns how many a second.
func (b *bench) fillOwn(s *side, n int) (float64, error) {
	line := fmt.Sprintf(`{"ntasks":1,"mem":"10","time":"60","partition":"closed","output":"/dev/null","job-name":"job","file":%q}`+"\n", filepath.Join(b.dir, "job.sh"))
	c := s.command("stint", "submit", "-")
	c.Stdin = strings.NewReader(strings.Repeat(line, n))
	c.Stderr = os.Stderr
	t := time.Now()
	out, err := c.Output()
	if err != nil {
		return 0, fmt.Errorf("submitting %d jobs: %w: %.300s", n, err, out)
	}
	return float64(n) / time.Since(t).Seconds(), nil
}

// compare asks both the same, in turn, and adds a row of the least times.
func (b *bench) compare(key string, real, own *side, runs int, words ...string) error {
	if !wanted(key) {
		return nil
	}
	wall, cpu := map[*side]float64{}, map[*side]float64{}
	for range runs {
		for _, s := range both(real, own) {
			m, err := s.measure(1, 1, words...)
			if err != nil {
				return err
			}
			if m.Failed > 0 {
				return fmt.Errorf("%s: %s failed", s.name, strings.Join(words, " "))
			}
			if w := m.Walls[0]; wall[s] == 0 || w < wall[s] {
				wall[s] = w
			}
			if c := m.CPU[0] + m.Daemons; cpu[s] == 0 || c < cpu[s] {
				cpu[s] = c
			}
		}
	}
	r := row{Key: key, Stint: fmt.Sprintf("%.0f ms; %.0f ms", wall[own], cpu[own])}
	if real != nil {
		r.Slurm = fmt.Sprintf("%.0f ms; %.0f ms", wall[real], cpu[real])
		r.Ratio = fmt.Sprintf("%.2f; %.2f", wall[own]/wall[real], cpu[own]/cpu[real])
	}
	b.add(r)
	return nil
}

// kill kills all central daemons while jobs are submitted, starts them again, and counts what is missing of what was acknowledged.
func (b *bench) kill(real, own *side) error {
	r := row{Key: "kill"}
	for _, s := range both(real, own) {
		list := filepath.Join(b.dir, "acknowledged")
		loop := fmt.Sprintf("for k in 1 2 3 4; do (while id=$(sbatch --parsable -n1 -p closed --mem=10 -t60 -o/dev/null %s/job.sh 2>/dev/null); do echo $id; done) & done; wait", b.dir)
		c := s.command("bash", "-c", loop)
		out, err := os.Create(list)
		if err != nil {
			return err
		}
		c.Stdout, c.SysProcAttr = out, &syscall.SysProcAttr{Setpgid: true}
		if err := c.Start(); err != nil {
			return err
		}
		time.Sleep(5 * time.Second)  // jobs are submitted meanwhile
		all := []int{s.controller()} // of the real one the controller, as its database is not what is asked
		if s == own {
			all = own.all()
		}
		for _, p := range all {
			syscall.Kill(p, syscall.SIGKILL)
		}
		syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		c.Wait()
		out.Close()
		for _, p := range all { // who starts them again sees them end
			for syscall.Kill(p, 0) == nil {
				time.Sleep(5 * time.Millisecond)
			}
		}
		t := time.Now()
		started := make(chan error, 1)
		if s == real {
			started <- b.restartReal(s)
		} else {
			go func() { started <- b.upOwn(s) }() // it returns when all nodes are there too
		}
		if err := s.until(time.Minute, func(out string) bool { return strings.TrimSpace(out) != "" }, "squeue", "-h", "-o", "%i"); err != nil {
			return err
		}
		took := time.Since(t)
		if err := <-started; err != nil {
			return err
		}
		there, err := s.do("squeue", "-h", "-o", "%i")
		if err != nil {
			return err
		}
		have := map[string]bool{}
		for id := range strings.FieldsSeq(there) {
			have[id] = true
		}
		text, _ := os.ReadFile(list)
		acknowledged, lost := 0, 0
		for id := range strings.FieldsSeq(string(text)) {
			acknowledged++
			if !have[id] {
				lost++
			}
		}
		cell := fmt.Sprintf("%.2f s; %d of %d", took.Seconds(), lost, acknowledged)
		if s == real {
			r.Slurm = cell
		} else {
			r.Stint = cell
		}
	}
	b.add(r)
	return nil
}

// cancel ends the long queue and asks accounting of it.
func (b *bench) cancel(real, own *side) error {
	took, ids := map[*side]float64{}, map[*side]string{}
	for _, s := range both(real, own) {
		out, err := s.do("squeue", "-h", "-o", "%i")
		if err != nil {
			return err
		}
		if list := strings.Fields(out); len(list) > 0 {
			ids[s] = list[len(list)/2]
		}
		t := time.Now()
		if _, err := s.do("scancel", "-p", "closed"); err != nil {
			return err
		}
		if err := s.until(10*time.Minute, func(out string) bool { return strings.TrimSpace(out) == "" }, "squeue", "-h", "-o", "%i", "-t", "PD,R,CG"); err != nil {
			return err
		}
		took[s] = time.Since(t).Seconds()
	}
	r := row{Key: "scancel", Stint: fmt.Sprintf("%.2f s", took[own])}
	if real != nil {
		r.Slurm, r.Ratio = fmt.Sprintf("%.1f s", took[real]), fmt.Sprintf("%.3f", took[own]/took[real])
	}
	b.add(r)
	want := b.count(50000) * 9 / 10
	for _, s := range both(real, own) { // until accounting has them
		if err := s.until(10*time.Minute, func(out string) bool { return strings.Count(out, "CANCELLED") >= want }, "sacct", "-X", "-n", "-P", "-o", "State", "-S", "now-1day"); err != nil {
			return err
		}
	}
	if err := b.compare("sacct", real, own, 5, "sacct", "-X", "-n", "-P", "-S", "now-1day", "-o", "JobID,State"); err != nil {
		return err
	}
	return b.compareEach("sacctj", real, own, func(s *side) []string { return []string{"sacct", "-j", ids[s]} })
}

// compareEach is compare with words that differ in an id.
func (b *bench) compareEach(key string, real, own *side, words func(*side) []string) error {
	if !wanted(key) {
		return nil
	}
	r := row{Key: key}
	least := map[*side]float64{}
	for _, s := range both(real, own) {
		m, err := s.measure(20, 1, words(s)...)
		if err != nil {
			return err
		}
		least[s] = m.Walls[0]
		cell := fmt.Sprintf("%.0f ms (median %.0f)", m.Walls[0], middle(m.Walls))
		if s == real {
			r.Slurm = cell
		} else {
			r.Stint = cell
		}
	}
	if real != nil {
		r.Ratio = fmt.Sprintf("%.2f", least[own]/least[real])
	}
	b.add(r)
	return nil
}

// nodes asks about many nodes, none of which is there.
func (b *bench) nodes() error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	n := b.count(10000)
	conf := fmt.Sprintf("SlurmCompat=22.05\nClusterName=figures\nSlurmctldHost=localhost\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n"+
		"NodeName=c[1-%d] CPUs=32 Sockets=2 CoresPerSocket=16 RealMemory=128000 State=UNKNOWN\nNodeName=%s CPUs=2 RealMemory=1000 State=UNKNOWN\nPartitionName=compute Nodes=c[1-%d] Default=YES MaxTime=UNLIMITED State=UP\n", n, host, n)
	real, own, err := b.start("sched10000", 0, conf)
	if err != nil {
		return err
	}
	return b.compare("sinfo", real, own, 7, "sinfo")
}
