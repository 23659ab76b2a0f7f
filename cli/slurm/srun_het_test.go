package slurm

import (
	"fmt"
	"strings"
	"testing"
)

// What a call of srun for several components comes to: of each its place, its tasks, its label and its words.
func TestSrunComponents(t *testing.T) {
	inside := []string{"SLURM_JOB_ID=7", "SLURM_HET_SIZE=3", "SLURM_NTASKS=1", "SLURM_NTASKS_PER_NODE=1", "SLURM_NTASKS_HET_GROUP_0=1", "SLURM_NTASKS_HET_GROUP_1=2", "SLURM_NTASKS_HET_GROUP_2=3"}
	for _, x := range []struct {
		args    string
		environ []string
		want    string
	}{
		{"-n2 a", nil, "0 n=2 l=false a"},
		{"-n2 -l a x : -n3 b y", nil, "0 n=2 l=true a x|1 n=3 l=true b y"},
		{"-n2 : -n3 b y", nil, "0 n=2 l=false b y|1 n=3 l=false b y"},
		{"a", inside, "0 n=1 l=false a"},
		{"--het-group=1 a", inside, "1 n=2 l=false a"},
		{"--het-group=0-2 a", inside, "0 n=1 l=false a|1 n=2 l=false a|2 n=3 l=false a"},
		{"--het-group=[0,2] -n5 a", inside, "0 n=5 l=false a|2 n=5 l=false a"},
		{"--het-group=2 -l a : --het-group=0 b", inside, "0 n=1 l=true b|2 n=3 l=true a"},
		{"a : b", inside, "0 n=1 l=false a|1 n=2 l=false b"},
		{"--het-group=3 a", nil, "0 n=0 l=false a"},
		{"a : ", inside, "fatal: No command given to execute."},
		{"--het-group=0,1 a : --het-group=1 b", inside, "fatal: Duplicate het groups in single srun not supported"},
		{"--het-group=x a", inside, "Invalid --het-group value: x"},
		{"--het-group=2-1 a", inside, "Invalid --het-group value: 2-1"},
	} {
		s, err := Srun(SbatchInput{Args: strings.Fields(x.args), Environ: append([]string{"PATH=/bin"}, x.environ...), Release: Release2605, Dir: "/tmp"})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			var list []string
			for _, one := range append([]*Step{s}, s.Others...) {
				list = append(list, fmt.Sprintf("%d n=%d l=%v %s", one.Group, one.Want.Tasks, one.Label, strings.Join(one.Command, " ")))
			}
			got = strings.Join(list, "|")
		}
		if got != x.want {
			t.Errorf("srun %s: %s, not %s", x.args, got, x.want)
		}
	}
}
