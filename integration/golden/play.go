package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// firstOf says at which job id a scenario's cluster begins. The first scenario's jobs get the very ids they had; in the others ids
// are told from other numbers by their size (see mask.go), because there a job that one side refuses shifts all that follow.
func firstOf(scenario string) int {
	if strings.HasPrefix(scenario, "s10") {
		return 1
	}
	return idsFrom + 1
}

// needs are the groups whose effects another group's rows tell of.
var needs = map[string][]string{"sacct": {"scontrol-requeue", "nodes"}}

// notPlayed: the recordings of these were made on other clusters, or of programs that are not here.
var notPlayed = []string{"s70_oom"}

// commands of Slurm's. A scenario must find Stint's or none: those that are not there answer as a shell would.
var slurms = strings.Fields("sacct sacctmgr salloc sattach sbatch sbcast scancel scontrol scrontab sdiag sinfo sprio squeue sreport srun sshare sstat strigger slurmctld slurmd slurmdbd slurmrestd slurmstepd")

// play runs the scenarios that have the groups, each on a cluster of its own, and leaves their rows in at/SCENARIO/GROUP.
func (o *order) play(real map[string][]*row, at string) error {
	if os.Geteuid() != 0 {
		return errors.New("it needs root, to submit as several users")
	}
	files, err := filepath.Glob(filepath.Join(o.oracle, "scenarios", "s[0-9]*.sh"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("there are no scenarios in %s", o.oracle)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".sh")
		if len(o.scenario) > 0 && !slices.Contains(o.scenario, name) || len(o.scenario) == 0 && slices.Contains(notPlayed, name) {
			continue
		}
		has, err := groupsIn(f)
		if err != nil {
			return err
		}
		if len(o.groups) > 0 && !slices.ContainsFunc(has, func(g string) bool { return slices.Contains(o.groups, g) }) {
			continue
		}
		begin := time.Now()
		if err := o.scene(real, f, name, filepath.Join(at, name)); err != nil {
			return fmt.Errorf("playing %s: %w", name, err)
		}
		fmt.Fprintf(os.Stderr, "golden: played %s in %s\n", name, time.Since(begin).Round(time.Second))
	}
	return nil
}

// groupsIn returns the groups that a scenario has rows of.
func groupsIn(path string) (groups []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for _, m := range regexp.MustCompile(`\bGROUP=([a-z-]+)`).FindAllStringSubmatch(string(text), -1) {
		groups = append(groups, m[1])
	}
	return groups, nil
}

// usersOf is where the users' files are while a scenario is played: as long a path as the recorded one, since columns cut paths, or fill them up.
func usersOf(scenario string) string {
	switch {
	case strings.HasPrefix(scenario, "s10"):
		return "/var/tmp/stint-golden-users-here"
	case strings.HasPrefix(scenario, "s40"):
		return "/var/tmp/stint-golden-users-there"
	}
	return "/tmp/u"
}

// scene plays one scenario.
func (o *order) scene(real map[string][]*row, script, name, at string) (err error) {
	base, users := filepath.Join(o.work, name), usersOf(name)
	conf, bin, dir := filepath.Join(base, "etc"), filepath.Join(base, "bin"), filepath.Join(base, "d")
	if err := os.Mkdir(users, 0o755); err != nil {
		return fmt.Errorf("the folder for users' files, which is left behind only if an earlier run was killed: %w", err)
	}
	defer os.RemoveAll(users)
	if err := os.RemoveAll(at); err != nil { // of an earlier run
		return err
	}
	for _, d := range []string{conf, bin, at, filepath.Join(base, "scenario")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	defer os.RemoveAll(base)
	if err := o.site(conf, firstOf(name)); err != nil {
		return err
	}
	stint := filepath.Join(o.programs, "stint")
	// A batch script that gets the PATH of a login finds the commands there first, before those of a real Slurm on this machine.
	up := exec.Command("unshare", "-m", "bash", "-c", `mount --make-rprivate / && mount --bind "$1" /usr/local/bin && shift && exec "$@"`, "up", bin,
		stint, "up", "--dir", dir, "--config", filepath.Join(conf, "slurm.conf"), "--virtual", "--detach")
	if out, err := up.CombinedOutput(); err != nil {
		return fmt.Errorf("starting the cluster: %w: %s", err, out)
	}
	defer func() {
		if o.keep != "" {
			exec.Command("cp", "-r", filepath.Join(dir, "log"), at).Run()
		}
		if out, e := exec.Command(stint, "down", "--dir", dir, "--kill").CombinedOutput(); e != nil && err == nil {
			err = fmt.Errorf("ending the cluster: %w: %s", e, out)
		}
	}()
	if err := names(bin, dir, filepath.Join(filepath.Dir(at), "has")); err != nil {
		return err
	}
	// The scenario sources what lies beside it.
	for from, to := range map[string]string{script: name + ".sh", filepath.Join(here(), "record.sh"): "record.sh"} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(base, "scenario", to), text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	var leave, need []string
	for g, rows := range real {
		for _, r := range rows {
			if r.cut() {
				leave = append(leave, g+"/"+r.bare())
			}
		}
	}
	for _, g := range o.groups {
		need = append(need, needs[g]...)
	}
	recorder, err := filepath.Abs(filepath.Join(o.oracle, "scenarios"))
	if err != nil {
		return err
	}
	setUp := exec.Command("bash", filepath.Join(o.oracle, "etc", "oracle", "accounts.sh"))
	setUp.Env = append(os.Environ(), "PATH="+bin+":/usr/local/bin:/usr/bin:/bin")
	setUp.Run() // what it cannot do shows in the rows
	rows := ""
	if o.rows != nil {
		rows = o.rows.String()
	}
	// /etc/slurm is the cluster's own for the scenario, which edits it.
	cmd := exec.Command("unshare", "-m", "bash", "-c", `mkdir -p /etc/slurm && mount --make-rprivate / && mount --bind "$CONF" /etc/slurm && exec bash "$SCENARIO"`)
	cmd.Env = append(os.Environ(), "CONF="+conf, "SCENARIO="+filepath.Join(base, "scenario", name+".sh"), "OUT="+at, "BIN="+bin, "WORK="+users, "REAL="+recorder,
		"ONLY="+strings.Join(o.groups, " "), "NEED="+strings.Join(need, " "), "ROWS="+rows, "LEAVE="+strings.Join(leave, " "),
		"SCENE="+name, "STOP_CONTROLLER="+stint+" down --dir "+dir, "STINT="+stint, "DIR="+dir)
	said, err := os.Create(filepath.Join(at, "said"))
	if err != nil {
		return err
	}
	defer said.Close()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) { // the exit of a scenario is that of its last line
			return err
		}
	}
	return nil
}

// site writes the configuration of the recorded cluster.
func (o *order) site(dir string, first int) error {
	for _, name := range []string{"slurm.conf", "gres.conf", "cgroup.conf"} {
		text, err := os.ReadFile(filepath.Join(o.oracle, "etc", "oracle", name))
		if err != nil {
			return err
		}
		out := strings.ReplaceAll(string(text), "@RUN@", filepath.Join(filepath.Dir(dir), "run"))
		if name == "slurm.conf" {
			out += fmt.Sprintf("SlurmCompat=22.05\nFirstJobId=%d\n", first)
			if first < idsFrom { // see record.sh
				out = strings.Replace(out, "SchedulerType=sched/backfill", "SchedulerType=sched/builtin", 1)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(out), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// names puts Slurm's names into bin: Stint's commands, told which cluster they speak to, and for those that are not built one that says so.
func names(bin, dir, has string) error {
	if err := os.MkdirAll(has, 0o755); err != nil {
		return err
	}
	for _, name := range slurms {
		real := filepath.Join(dir, "bin", name)
		text := fmt.Sprintf("#!/bin/sh\nSTINT_DIR=%s exec %s \"$@\"\n", dir, real)
		if _, err := os.Stat(real); errors.Is(err, fs.ErrNotExist) {
			text = "#!/bin/sh\necho \"$0: not built\" >&2\nexit 127\n"
		} else if err := os.WriteFile(filepath.Join(has, name), nil, 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// here is the directory of this program's sources: it is run from the top of the project.
func here() string { return filepath.Join("integration", "golden") }
