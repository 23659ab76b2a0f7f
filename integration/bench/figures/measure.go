package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// measured is what many runs of one command took. Times are in milliseconds.
type measured struct {
	Walls   []float64 // in order of size
	CPU     []float64 // of the command itself, in order of size
	Faults  float64   // page faults without I/O, mean
	Failed  int
	Seconds float64 // from the first start to the last end
	Daemons float64 `json:"-"` // CPU of the central daemons meanwhile, of each run
}

func (m *measured) rate() float64   { return float64(len(m.Walls)) / m.Seconds }
func middle(list []float64) float64 { return list[len(list)/2] }

// inner runs a command N times, some at once, and prints what it measured. It is a process of its own so that it can be inside
// another network namespace, and what starts the command is the same for both sides.
func inner(args []string) {
	n, _ := strconv.Atoi(args[0])
	parallel, _ := strconv.Atoi(args[1])
	path, err := exec.LookPath(args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var m measured
	var mu sync.Mutex
	var next atomic.Int64
	var all sync.WaitGroup
	begun := time.Now()
	for range parallel {
		all.Go(func() {
			for next.Add(1) <= int64(n) {
				c := exec.Command(path, args[3:]...)
				c.Args[0] = args[2]
				t := time.Now()
				err := c.Run()
				wall := time.Since(t)
				mu.Lock()
				m.Walls = append(m.Walls, ms(wall))
				if err != nil {
					m.Failed++
				}
				if c.ProcessState != nil {
					m.CPU = append(m.CPU, ms(c.ProcessState.UserTime()+c.ProcessState.SystemTime()))
					m.Faults += float64(c.ProcessState.SysUsage().(*syscall.Rusage).Minflt) / float64(n)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	m.Seconds = time.Since(begun).Seconds()
	slices.Sort(m.Walls)
	slices.Sort(m.CPU)
	json.NewEncoder(os.Stdout).Encode(m)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// spent is the CPU time of processes so far, in milliseconds.
func spent(pids []int) (sum float64) {
	for _, p := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(rest); len(f) > 12 {
			user, _ := strconv.ParseFloat(f[11], 64)
			sys, _ := strconv.ParseFloat(f[12], 64)
			sum += (user + sys) * 10
		}
	}
	return sum
}

// resident is the memory of a process that is its own and not of a file, in MB (RssAnon of proc(5)).
func resident(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "RssAnon:" {
			kb, _ := strconv.ParseFloat(f[1], 64)
			return kb * 1024 / 1e6
		}
	}
	return 0
}

// residents is the memory of all central daemons of a side, in MB: with Slurm's database, as with Stint's log.
func residents(s *side) (sum float64) {
	for _, p := range s.daemons() {
		sum += resident(p)
	}
	return sum
}

// machine says what was measured on, in terms of which other machines can be compared: one line of text.
func machine(dir string) string {
	load, _ := os.ReadFile("/proc/loadavg")
	m := func(words ...string) float64 {
		var walls []float64
		for range 100 {
			t := time.Now()
			exec.Command(words[0], words[1:]...).Run()
			walls = append(walls, ms(time.Since(t)))
		}
		slices.Sort(walls)
		return middle(walls)
	}
	block, err := syscall.Mmap(-1, 0, 64<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	var fault time.Duration
	if err == nil {
		t := time.Now()
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		fault = time.Since(t) / time.Duration(len(block)/4096)
		syscall.Munmap(block)
	}
	var syncs []float64
	if f, err := os.Create(filepath.Join(dir, "sync")); err == nil {
		for range 200 {
			f.Write(make([]byte, 300))
			t := time.Now()
			syscall.Fdatasync(int(f.Fd()))
			syncs = append(syncs, ms(time.Since(t)))
		}
		f.Close()
		os.Remove(f.Name())
		slices.Sort(syncs)
	}
	return fmt.Sprintf("%d cores, load %s at the end; starting `/bin/true` takes %.1f ms and `bash -c true` %.1f ms, a page fault %.1f µs, an fdatasync of 300 bytes %.2f ms (medians).\n",
		runtime.NumCPU(), strings.Fields(string(load))[0], m("/bin/true"), m("/bin/bash", "-c", "true"), float64(fault)/1000, middle(syncs))
}
