package commands

import "testing"

// What sbatch says of a job that was taken: nothing when it is to be quiet, whatever form was asked for.
func TestSaidOfTaken(t *testing.T) {
	h := newHost(t)
	h.script.Run("nodes n1 cpus=4 mem=4000\npartition main nodes=n1 default\nstart\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "Submitted batch job 1\n"},
		{[]string{"--parsable"}, "2\n"},
		{[]string{"-Q"}, ""},
		{[]string{"-Q", "--parsable"}, ""},
	} {
		if got := h.run(1000, nil, "", "sbatch", append(c.args, "--wrap", "true")...); got != c.want {
			t.Errorf("sbatch %q prints %q, want %q", c.args, got, c.want)
		}
	}
}
