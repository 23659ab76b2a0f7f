package slurm

import (
	"fmt"
	"strconv"
	"strings"
)

// foreign translates the words of a #PBS or #BSUB line into the options of sbatch that mean the same. Options it does not know are
// left out, with a sentence each; so are those that ask for what happens anyway.
func foreign(system string, words []string) (args, notes []string) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		if len(w) < 2 || w[0] != '-' {
			notes = append(notes, fmt.Sprintf("%s is not understood", clip(w)))
			continue
		}
		option, value := w[:2], w[2:]
		if system == "BSUB" && len(w) > 2 && (w == "-cwd" || strings.HasPrefix(w, "-R")) {
			option, value = w, ""
		}
		if !takesNone(system, option) && value == "" && i+1 < len(words) {
			i++
			value = words[i]
		}
		var more []string
		var ok bool
		if system == "PBS" {
			more, ok = fromPBS(option, value)
		} else {
			more, ok = fromBSUB(option, value)
		}
		if !ok {
			notes = append(notes, fmt.Sprintf("%s %s is not understood", option, value))
		}
		args = append(args, more...)
	}
	return args, notes
}

func takesNone(system, option string) bool {
	if system == "PBS" {
		return strings.Contains(" -V -h -I -X -z -f ", " "+option+" ")
	}
	return strings.Contains(" -x -H -r -N -B -K ", " "+option+" ")
}

func fromPBS(option, value string) (args []string, ok bool) {
	switch option {
	case "-N":
		return []string{"--job-name=" + value}, true
	case "-q":
		return []string{"--partition=" + value}, true
	case "-A":
		return []string{"--account=" + value}, true
	case "-o":
		return []string{"--output=" + afterHost(value)}, true
	case "-e":
		return []string{"--error=" + afterHost(value)}, true
	case "-h":
		return []string{"--hold"}, true
	case "-J", "-t":
		return []string{"--array=" + value}, true
	case "-M":
		return []string{"--mail-user=" + value}, true
	case "-m":
		var kinds []string
		for _, c := range value {
			kind, known := map[rune]string{'a': "FAIL", 'b': "BEGIN", 'e': "END", 'n': "NONE"}[c]
			if !known {
				return nil, false
			}
			kinds = append(kinds, kind)
		}
		return []string{"--mail-type=" + strings.Join(kinds, ",")}, true
	case "-r":
		if strings.EqualFold(value, "n") {
			return []string{"--no-requeue"}, true
		}
		return []string{"--requeue"}, true
	case "-d":
		return []string{"--chdir=" + value}, true
	case "-V", "-j": // the environment passes, and both outputs go into one file, unless told otherwise
		return nil, true
	case "-l":
		return fromResources(value)
	}
	return nil, false
}

// afterHost takes the host off a path of PBS, `host:path`.
func afterHost(path string) string {
	if _, after, ok := strings.Cut(path, ":"); ok {
		return after
	}
	return path
}

// fromResources translates the value of -l: `nodes=2:ppn=4,walltime=1:00:00,mem=4gb`.
func fromResources(value string) (args []string, ok bool) {
	ok = true
	for _, term := range strings.Split(value, ",") {
		key, v, _ := strings.Cut(term, "=")
		switch strings.ToLower(key) {
		case "nodes":
			parts := strings.Split(v, ":")
			args = append(args, "--nodes="+parts[0])
			for _, p := range parts[1:] {
				n, isPPN := strings.CutPrefix(p, "ppn=")
				if !isPPN {
					ok = false
					continue
				}
				args = append(args, "--ntasks-per-node="+n)
			}
		case "walltime", "cput":
			args = append(args, "--time="+v)
		case "mem":
			args = append(args, "--mem="+strings.ToUpper(v))
		case "pmem":
			args = append(args, "--mem-per-cpu="+strings.ToUpper(v))
		case "ncpus":
			args = append(args, "--cpus-per-task="+v)
		case "nice":
			args = append(args, "--nice="+v)
		case "file":
			args = append(args, "--tmp="+strings.ToUpper(v))
		default:
			ok = false
		}
	}
	return args, ok
}

func fromBSUB(option, value string) (args []string, ok bool) {
	switch option {
	case "-J":
		name, tasks, array := strings.Cut(value, "[")
		args = []string{"--job-name=" + name}
		if array {
			args = append(args, "--array="+strings.Replace(tasks, "]", "", 1))
		}
		return args, true
	case "-n":
		return []string{"--ntasks=" + value}, true
	case "-q":
		return []string{"--partition=" + value}, true
	case "-P":
		return []string{"--account=" + value}, true
	case "-o":
		return []string{"--output=" + lsfPattern(value)}, true
	case "-e":
		return []string{"--error=" + lsfPattern(value)}, true
	case "-i":
		return []string{"--input=" + value}, true
	case "-W": // minutes, or hours and minutes
		if strings.Contains(value, ":") {
			value += ":00"
		}
		return []string{"--time=" + value}, true
	case "-M": // KiB without a unit
		if _, err := strconv.ParseUint(value, 10, 64); err == nil {
			value += "K"
		}
		return []string{"--mem-per-cpu=" + strings.ToUpper(value)}, true
	case "-m":
		return []string{"--nodelist=" + strings.ReplaceAll(value, " ", ",")}, true
	case "-cwd":
		return []string{"--chdir=" + value}, true
	case "-u":
		return []string{"--mail-user=" + value}, true
	case "-x":
		return []string{"--exclusive"}, true
	case "-H":
		return []string{"--hold"}, true
	case "-r":
		return []string{"--requeue"}, true
	case "-N":
		return []string{"--mail-type=END"}, true
	case "-B":
		return []string{"--mail-type=BEGIN"}, true
	}
	return nil, false
}

// lsfPattern writes LSF's patterns of file names as Slurm's.
func lsfPattern(s string) string { return strings.NewReplacer("%J", "%j", "%I", "%a").Replace(s) }
