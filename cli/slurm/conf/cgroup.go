package conf

import (
	"fmt"
	"strconv"
	"strings"

	"stint/cli/slurm/once"
	"stint/events"
)

var cgroupKeys = once.Value[[]string]{Make: func() []string {
	return strings.Fields(`AllowedRAMSpace AllowedSwapSpace CgroupAutomount CgroupMountpoint CgroupPlugin ConstrainCores ConstrainDevices ConstrainRAMSpace
	ConstrainSwapSpace EnableControllers IgnoreSystemd IgnoreSystemdOnFailure MaxRAMPercent MaxSwapPercent MemorySwappiness MinRAMSpace SignalChildrenProcesses
	SystemdTimeout AllowedDevicesFile AllowedKmemSpace CgroupJobIdPaths CgroupReleaseAgentDir CgroupSlice ConstrainKmemSpace EnableExtraControllers MaxKmemPercent
	MemoryLimitEnforcement MemoryLimitThreshold MinKmemSpace`)

}}

func (b *builder) cgroupLine(l line) error {
	if b.Config.Cgroup == nil {
		b.Config.Cgroup = &events.CgroupConf{Given: true, AllowedRamPct: 100, MaxRamPct: 100}
	}
	c := b.Config.Cgroup
	for _, p := range l.pairs {
		var err error
		switch strings.ToLower(p.key) {
		case "constraincores":
			c.Cores, err = yesNo(p.value)
		case "constrainramspace":
			c.Ram, err = yesNo(p.value)
		case "constrainswapspace":
			c.Swap, err = yesNo(p.value)
		case "constraindevices":
			c.Devices, err = yesNo(p.value)
		case "allowedramspace":
			c.AllowedRamPct, err = percent(p.value)
		case "allowedswapspace":
			c.AllowedSwapPct, err = percent(p.value)
		case "maxrampercent":
			c.MaxRamPct, err = percent(p.value)
		case "minramspace":
			c.MinRamMib, err = mebibytes(p.value)
		case "constrainkmemspace":
			var on bool
			if on, err = yesNo(p.value); on {
				b.Notes = append(b.Notes, Note{p.key, p.value, l.where(), Harmless, "kernel memory is part of a job's memory"})
			}
		case "cgroupplugin":
			if strings.EqualFold(p.value, "disabled") {
				b.Notes = append(b.Notes, Note{p.key, p.value, l.where(), Harmless, "start Stint as an ordinary user for a cluster without control groups"})
				break
			}
			b.Notes = append(b.Notes, Note{p.key, p.value, l.where(), Mapped, "the version of control groups is found on each node"})
		case "allowedkmemspace", "maxkmempercent", "minkmemspace", "cgroupautomount", "cgroupmountpoint", "enablecontrollers", "ignoresystemd",
			"ignoresystemdonfailure", "maxswappercent", "memoryswappiness", "signalchildrenprocesses", "systemdtimeout", "alloweddevicesfile",
			"cgroupjobidpaths", "cgroupreleaseagentdir", "cgroupslice", "enableextracontrollers", "memorylimitenforcement", "memorylimitthreshold":
			b.Notes = append(b.Notes, Note{p.key, p.value, l.where(), Harmless, "the supervisor lays out control groups by itself"})
		default:
			err = fmt.Errorf("unrecognized key%s", nearOf(p.key, cgroupKeys.Get()))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.key, err)
		}
	}
	return nil
}

func percent(v string) (float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSuffix(v, "%"), 64)
	if err != nil || !(f >= 0 && f <= 10000) {
		return 0, fmt.Errorf("%q is not a percentage", clip(v))
	}
	return f, nil
}
