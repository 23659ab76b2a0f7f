package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// restFill gives the real one jobs through slurmrestd, which it starts for that, and returns how many a second.
func (b *bench) restFill(s *side, n int) (float64, error) {
	socket := filepath.Join(b.dir, "rest.sock")
	os.Remove(socket)
	// It must be nobody's and be told who it is: it refuses to be root or SlurmUser.
	c := s.command("setpriv", "--reuid=alice", "--regid=alice", "--init-groups", "/usr/sbin/slurmrestd", "-a", "rest_auth/local", "-s", "openapi/v0.0.38", "unix:"+socket)
	log, err := os.Create(filepath.Join(b.dir, "rest.log"))
	if err != nil {
		return 0, err
	}
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	if err := os.Chmod(b.dir, 0o777); err != nil {
		return 0, err
	}
	defer os.Chmod(b.dir, 0o755)
	for _, words := range [][]string{{"sacctmgr", "-Q", "-i", "add", "account", "phys"}, {"sacctmgr", "-Q", "-i", "add", "user", "alice", "account=phys"}} {
		s.do(words...) // the second time there is nothing to add
	}
	if err := c.Start(); err != nil {
		return 0, fmt.Errorf("starting slurmrestd: %w", err)
	}
	defer func() { c.Process.Kill(); c.Wait() }()
	client := &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 4,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	body, err := json.Marshal(map[string]any{"script": "#!/bin/bash\ntrue\n", "job": map[string]any{"name": "job", "partition": "closed", "tasks": 1, "memory_per_node": 10,
		"time_limit": 60, "standard_output": "/dev/null", "current_working_directory": b.dir, "environment": map[string]string{"PATH": "/usr/bin:/bin"}}})
	if err != nil {
		return 0, err
	}
	submit := func() error {
		r, err := client.Post("http://localhost/slurm/v0.0.38/job/submit", "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		if r.StatusCode != http.StatusOK {
			return fmt.Errorf("slurmrestd answers %s: %.300s", r.Status, text)
		}
		return nil
	}
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if err = submit(); err == nil {
			break
		}
		if time.Since(begun) > 20*time.Second {
			return 0, fmt.Errorf("giving the real one jobs: %w", err)
		}
	}
	var all sync.WaitGroup
	errs := make(chan error, 4)
	t := time.Now()
	for k := range 4 {
		all.Go(func() {
			for i := 1 + k; i < n; i += 4 {
				var err error
				for range 20 { // a reload of connections, a busy controller
					if err = submit(); err == nil {
						break
					}
					time.Sleep(100 * time.Millisecond)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		return 0, fmt.Errorf("giving the real one jobs: %w", err)
	default:
	}
	return float64(n-1) / time.Since(t).Seconds(), nil
}

// restartReal starts the killed controller again, as its script does.
func (b *bench) restartReal(s *side) error {
	run := filepath.Join(realDir(), "run")
	words := append(append([]string(nil), s.enter...), "bash", "-c", fmt.Sprintf(
		"setsid setpriv --reuid=slurm --regid=slurm --init-groups /usr/sbin/slurmctld -D >%[1]s/slurmctld.out 2>&1 </dev/null & echo $! >%[1]s/slurmctld.pid", run))
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("starting the real one's controller again: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// profiles is a copy of the folder of the real one's script, which takes its profiles from where it lies: nodes with as many CPUs as
// wanted, and a partition that is down, for the long queues.
func (b *bench) profiles(cpus int) (string, error) {
	folder := filepath.Join(b.dir, fmt.Sprintf("oracle-%d", cpus))
	if out, err := exec.Command("cp", "-rT", b.oracle, folder).CombinedOutput(); err != nil {
		return "", fmt.Errorf("copying the real one's script: %w: %s", err, out)
	}
	file := filepath.Join(folder, "etc", "tuned-acct", "slurm.conf")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	wide := strings.NewReplacer("CPUs=8 ", fmt.Sprintf("CPUs=%d ", cpus), "CoresPerSocket=8 ", fmt.Sprintf("CoresPerSocket=%d ", cpus)).Replace(string(text))
	return folder, os.WriteFile(file, []byte(wide+"\nPartitionName=closed Nodes=n[1-4] MaxTime=UNLIMITED State=DOWN\n"), 0o644)
}
