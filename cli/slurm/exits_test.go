package slurm

import (
	"errors"
	"testing"
)

// Values that are wrong are refused with the exit code that the real command has for that option: not always 255.
func TestExitsOfWrongValues(t *testing.T) {
	for option, want := range map[string]int{
		"--wait-all-nodes=bad": 1, "--wait-all-nodes=2": 1, "--wait-all-nodes=-1": 1, "--core-spec=bad": 1, "-S-1": 1, "--thread-spec=": 1,
		"-B1-": 1, "-B-1": 1, "-B2-1": 1, "-B1:x": 1, "-Bx": 1, "-B1-2:1-4": 0, "-B2:*": 0, "-n0": 1, "-cx": 1,
		"--time=": 255, "--begin=1:1": 255, "--begin=2030-1-1": 255, "--deadline=1:1": 255, "--cpu-freq=2-1": 255, "--cpu-freq=1-2": 0,
	} {
		_, err := Sbatch(testInput(option, "--wrap", "x"))
		got := 0
		var f *Failure
		if errors.As(err, &f) {
			got = f.Exit
		}
		if got != want || err != nil && f == nil {
			t.Errorf("sbatch %s: exit %d, %v; want %d", option, got, err, want)
		}
	}
}
