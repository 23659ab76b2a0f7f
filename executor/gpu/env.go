package gpu

import (
	"fmt"
	"strconv"
	"strings"
)

// Env is a set of the environment variables that tell programs which GPUs are theirs.
type Env uint

const (
	EnvNVIDIA Env = 1 << iota // CUDA_VISIBLE_DEVICES
	EnvAMD                    // ROCR_VISIBLE_DEVICES
	EnvIntel                  // ZE_AFFINITY_MASK
	EnvOpenCL                 // GPU_DEVICE_ORDINAL
	EnvNone                   // none, said explicitly
)

var envNames = []struct {
	env            Env
	flag, variable string
}{
	{EnvNVIDIA, "nvidia_gpu_env", "CUDA_VISIBLE_DEVICES"},
	{EnvAMD, "amd_gpu_env", "ROCR_VISIBLE_DEVICES"},
	{EnvIntel, "intel_gpu_env", "ZE_AFFINITY_MASK"},
	{EnvOpenCL, "opencl_env", "GPU_DEVICE_ORDINAL"},
}

// ParseEnv reads the Flags= of a gres.conf line as far as they are about the environment: comma separated, in any case.
// Flags that are about something else are refused.
func ParseEnv(flags string) (Env, error) {
	var e Env
	for _, word := range strings.Split(flags, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		known := Env(0)
		if strings.EqualFold(word, "no_gpu_env") {
			known = EnvNone
		}
		for _, n := range envNames {
			if strings.EqualFold(word, n.flag) {
				known = n.env
			}
		}
		if known == 0 {
			return 0, fmt.Errorf("gres.conf: flag %q is not supported: use nvidia_gpu_env, amd_gpu_env, intel_gpu_env, opencl_env or no_gpu_env", word)
		}
		e |= known
	}
	if e&EnvNone != 0 && e != EnvNone {
		return 0, fmt.Errorf("gres.conf: flag no_gpu_env cannot be combined with the flags %q", flags)
	}
	return e, nil
}

// defaults are the variables for a GPU when gres.conf says nothing: those of its vendor, or all where it is not known.
func (v Vendor) defaults() Env {
	switch v {
	case NVIDIA:
		return EnvNVIDIA | EnvOpenCL
	case AMD:
		return EnvAMD | EnvOpenCL
	case Intel:
		return EnvIntel
	}
	return EnvNVIDIA | EnvAMD | EnvIntel | EnvOpenCL
}

// Environment gives the entries ("CUDA_VISIBLE_DEVICES=0,2") for a job or step that has these GPUs. env 0 means what is
// usual for the vendor. hidden says that the job cannot open the other GPUs: libraries then count only its own, from 0;
// otherwise the numbers are those on the node. A job without GPUs has no entries.
func Environment(granted []GPU, env Env, hidden bool) []string {
	var out []string
	for _, n := range envNames {
		var ids []string
		for i, g := range granted {
			e := env
			if e == 0 {
				e = g.Vendor.defaults()
			}
			if e&n.env == 0 {
				continue
			}
			id := g.Index
			if hidden {
				id = i
			}
			ids = append(ids, strconv.Itoa(id))
		}
		if len(ids) > 0 {
			out = append(out, n.variable+"="+strings.Join(ids, ","))
		}
	}
	return out
}
