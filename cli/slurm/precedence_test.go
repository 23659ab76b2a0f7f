package slurm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// twoValues are two values for each effect that an environment variable can have, where words alone would not do.
var twoValues = map[string][2]string{
	"acctg-freq": {"task=10", "task=20"}, "array": {"1-2", "3-4"}, "core-spec": {"1", "2"}, "cpus-per-gpu": {"1", "2"}, "delay-boot": {"1", "2"},
	"distribution": {"block", "cyclic"}, "exclusive": {"user", "exclusive"}, "export": {"ALL", "A=1"}, "gpu-bind": {"closest", "none"}, "gpu-freq": {"low", "high"},
	"gpus": {"1", "2"}, "gpus-per-node": {"1", "2"}, "gpus-per-task": {"1", "2"}, "gres": {"gpu:1", "gpu:2"}, "gres-flags": {"enforce-binding", "disable-binding"},
	"hint": {"nomultithread", "memory_bound"}, "mem": {"100", "200"}, "mem-bind": {"local", "rank"}, "mem-per-cpu": {"100", "200"}, "mem-per-gpu": {"100", "200"},
	"open-mode": {"append", "truncate"}, "power": {"level", ""}, "profile": {"energy", "task"}, "segment": {"1", "2"}, "signal": {"USR1", "USR2"},
	"switches": {"1", "2"}, "threads-per-core": {"1", "2"}, "time": {"1", "2"}, "tres-bind": {"gres/gpu:closest", "gres/gpu:none"},
	"tres-per-task": {"cpu=1", "cpu=2"}, "verbose": {"1", "2"}, "wait-all-nodes": {"0", "1"}, "nodes": {"1", "2"}, "ntasks": {"1", "2"}, "ntasks-per-node": {"1", "2"},
	"ntasks-per-core": {"1", "2"}, "ntasks-per-gpu": {"1", "2"}, "ntasks-per-socket": {"1", "2"}, "cpus-per-task": {"1", "2"}, "dependency": {"singleton", "after:1"},
	"immediate": {"1", "2"}, "kill-command": {"TERM", "INT"}, "licenses": {"a", "b"}, "chdir": {"/a", "/b"},
}

// apart are effects whose variable is not like the option: a switch that is on, a time to wait for switches, what goes with another; srun's for steps.
var apart = " wait4switch get-user-env no-kill requeue clusters power core-spec "

// The command line outranks a variable, a variable a line of the script: of every option that has one.
func TestPrecedence(t *testing.T) {
	with := map[string]string{
		"gpus-per-task": "-n4", "mem-per-gpu": "-G1", "cpus-per-gpu": "-G1", "ntasks-per-gpu": "-G4", "gpu-bind": "-G1", "tres-per-task": "-n2", "ntasks-per-node": "-N2",
	}
	calls := map[string]func(in SbatchInput) (string, error){
		"sbatch": func(in SbatchInput) (string, error) {
			s, err := Sbatch(in)
			if err != nil {
				return "", err
			}
			return cameTo(s, nil), nil
		},
		"salloc": func(in SbatchInput) (string, error) {
			a, err := Salloc(in)
			if err != nil {
				return "", err
			}
			return cameTo(&a.Submission, []any{a.Immediate, a.Kill, a.Bell, a.NoBell}), nil
		},
	}
	for _, table := range []*Table{&SbatchTable, SallocTable()} {
		for i := range table.Options {
			o := &table.Options[i]
			if o.Env == "" || o.Effect == "" || o.Name == "" || o.Arg == None || !o.in(Release2605) || strings.Contains(apart, " "+o.Effect+" ") {
				continue
			}
			values, ok := twoValues[o.Effect]
			if !ok {
				values = [2]string{"a", "b"}
			}
			ask := func(env, script, line string) string {
				var args []string
				if more := with[o.Effect]; more != "" {
					args = append(args, more)
				}
				if line != "" {
					args = append(args, "--"+o.Name+"="+line)
				}
				in := testInput(args...)
				if env != "" {
					in.Environ = []string{strings.Fields(o.Env)[0] + "=" + env}
				}
				if table == &SbatchTable {
					in.Args = append(in.Args, "x.sh")
					text := "#!/bin/sh\n"
					if script != "" {
						text += "#SBATCH --" + o.Name + "=" + script + "\n"
					}
					in.Read = func(string) ([]byte, string, error) { return []byte(text), "/x.sh", nil }
				}
				got, err := calls[table.Command](in)
				if err != nil {
					t.Fatalf("%s: --%s with %q in the environment, %q in the script, %q on the line: %v", table.Command, o.Name, env, script, line, err)
				}
				return got
			}
			first, second := ask("", "", values[0]), ask("", "", values[1])
			if first == second {
				t.Errorf("%s: --%s=%s and =%s make the same", table.Command, o.Name, values[0], values[1])
			}
			if got := ask(values[0], "", ""); got != first {
				t.Errorf("%s: %s=%s is not --%s=%s:\n%s\n%s", table.Command, o.Env, values[0], o.Name, values[0], got, first)
			}
			if got := ask(values[0], values[1], ""); got != first {
				t.Errorf("%s: %s does not outrank a line of the script:\n%s\n%s", table.Command, o.Env, got, first)
			}
			if got := ask(values[0], "", values[1]); got != second {
				t.Errorf("%s: --%s does not outrank %s:\n%s\n%s", table.Command, o.Name, o.Env, got, second)
			}
		}
	}
}

// cameTo is all that a submission comes to, apart from its command line.
func cameTo(s *Submission, more []any) string {
	spec := s.Spec.CloneVT()
	spec.SubmitLine = ""
	env := slices.DeleteFunc(slices.Clone(s.Environ), func(nv string) bool { return strings.HasPrefix(nv, "SBATCH_") || strings.HasPrefix(nv, "SALLOC_") })
	return fmt.Sprint(spec, env, s.Verbose, s.Wait, more)
}

// An allocation of several components: what is about resources counts for its component, the rest for those behind it too.
func TestSallocTogether(t *testing.T) {
	a, err := Salloc(testInput("-n1", "-A", "x", "--bell", ":", "-n2", "-J", "two", ":", "-N3", "--no-shell"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range a.Specs() {
		got = append(got, fmt.Sprintf("%s %s n%d N%d %v", s.Name, s.Account, s.Tasks, s.MinNodes, s.Interactive))
	}
	if want := "no-shell x n1 N0 true, two x n2 N0 true, two x n0 N3 true"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
	if !a.Bell || !a.NoShell {
		t.Errorf("bell %v, no shell %v", a.Bell, a.NoShell)
	}
}
