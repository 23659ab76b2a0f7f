package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"stint/cli/commands"
	"stint/cli/wire"
)

// checkCommands looks at what a user who types a command here would run, and to whom it would speak.
func checkCommands(r *report, s *scene) {
	own := map[string]bool{}
	if p, err := self(); err == nil {
		own[p] = true
	}
	for _, name := range commands.Names() {
		if p, err := program(name); err == nil {
			own[p] = true
		}
	}
	judgePath(r, filepath.SplitList(os.Getenv("PATH")), commands.Names(), own, string(s.dir))
	judgeEnviron(r, os.Environ(), s.dir)
	bin := filepath.Join(string(s.dir), "bin")
	var lost []string
	for _, name := range append(commands.Names(), "stint") {
		path := filepath.Join(bin, name)
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			lost = append(lost, name)
		}
	}
	if len(lost) > 0 {
		target, _ := os.Readlink(filepath.Join(bin, lost[0]))
		r.add(fault, "commands", "install stint, stint-cli and stint-sbatch there again, or: stint links "+bin, "%s in %s point to what is not there: %s", strings.Join(lost, ", "), bin, target)
	}
}

// judgePath says whose commands come first on PATH. own are the programs of this installation.
func judgePath(r *report, path, names []string, own map[string]bool, dir string) {
	var foreign, older []string
	found := 0
	for _, name := range names {
		for _, at := range path {
			if at == "" {
				at = "."
			}
			file := filepath.Join(at, name)
			info, err := os.Stat(file)
			if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
				continue
			}
			found++
			target, err := filepath.EvalSymlinks(file)
			switch {
			case err == nil && own[target]:
			case strings.HasPrefix(filepath.Base(target), "stint"):
				older = append(older, file+" ("+target+")")
			default:
				foreign = append(foreign, file)
			}
			break
		}
	}
	set := fmt.Sprintf(`eval "$(stint env --dir %s)"`, quote(dir))
	switch {
	case found == 0:
		r.add(note, "commands", set, "Slurm's command names are not on PATH")
	case len(foreign) > 0:
		r.add(warning, "commands", set+", or take the others off PATH", "on PATH come first, and are not Stint's: %s", few(foreign))
	case len(older) > 0:
		r.add(note, "commands", set, "on PATH come first those of another installation: %s", few(older))
	default:
		r.add(well, "commands", "", "%d of Slurm's names on PATH are this installation's", found)
	}
}

// few writes the first of a list, and how many more there are.
func few(list []string) string {
	const most = 3
	if len(list) <= most+1 {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// judgeEnviron looks at variables that send commands elsewhere, or give every job what nobody typed.
func judgeEnviron(r *report, environ []string, dir interface{ Logs() string }) {
	value := func(name string) string {
		for _, nv := range slices.Backward(environ) {
			if v, ok := strings.CutPrefix(nv, name+"="); ok {
				return v
			}
		}
		return ""
	}
	top := filepath.Dir(dir.Logs())
	if v := value("STINT_DIR"); v != "" {
		abs, _ := filepath.Abs(v)
		switch _, err := os.Stat(filepath.Join(abs, wire.Socket)); {
		case abs != top:
			r.add(warning, "commands", "export STINT_DIR="+quote(top), "STINT_DIR is %s, so commands speak to the cluster there, and not to that in %s", v, top)
		case errors.Is(err, fs.ErrNotExist):
			r.add(note, "commands", "", "STINT_DIR is %s, and no agent's socket is there", v)
		}
	} else if def := wire.Dir(); def != top {
		r.add(note, "commands", "export STINT_DIR="+quote(top), "without STINT_DIR commands speak to the cluster in %s, and not to that in %s", def, top)
	}
	if v := value("SLURM_CONF"); v != "" {
		if _, err := os.Stat(v); err != nil {
			r.add(note, "commands", "unset SLURM_CONF", "SLURM_CONF is %s, which cannot be read (%v); Stint's commands do not read it, a job's programs may", v, plainErr(err))
		}
	}
	if v := value("STINT_COMPAT"); v != "" {
		r.add(note, "commands", "", "STINT_COMPAT=%s: commands here look as those of that release, whatever the cluster says", v)
	}
	var defaults []string
	for _, nv := range environ {
		name, _, _ := strings.Cut(nv, "=")
		for _, prefix := range []string{"SBATCH_", "SALLOC_", "SQUEUE_", "SINFO_", "SACCT_", "SLURM_"} {
			if strings.HasPrefix(name, prefix) && name != "SLURM_CONF" {
				defaults = append(defaults, name)
			}
		}
	}
	slices.Sort(defaults)
	switch job := value("SLURM_JOB_ID"); {
	case job != "":
		r.add(note, "commands", "", "this shell is within job %s: srun and sbatch take options from it", job)
	case len(defaults) > 0:
		r.add(note, "commands", "unset those that are not meant", "variables here are options of every command: %s", few(defaults))
	}
}
