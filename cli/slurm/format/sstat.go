package format

import (
	"fmt"
	"strconv"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/once"
	"stint/events/tres"
	"stint/executor/tasks"
)

// Use is what a step that lives uses, for a row of sstat: all of it, or with the processes its part on one node.
type Use struct {
	Label string
	Batch bool
	Nodes string // hostlist
	Tasks []TaskUse
	Pids  []uint32
	KHz   uint64 // how fast its CPUs run
}

// TaskUse is what one of its tasks uses.
type TaskUse struct {
	*tasks.TaskUse
	Node string
}

// amount is one of the things that are measured of tasks.
type amount struct {
	name string
	get  func(*tasks.TaskUse) uint64
	text func(n uint64) string // in lists of resources

}

func plainText(n uint64) string { return strconv.FormatUint(n, 10) }
func kibText(n uint64) string   { return plainText(n) + "K" }

var (
	cpuUse   = amount{"cpu", (*tasks.TaskUse).GetCpuUs, func(n uint64) string { return Long(int64(n / 1e6)) }}
	readUse  = amount{"fs/disk", (*tasks.TaskUse).GetReadBytes, plainText}
	rssUse   = amount{"mem", (*tasks.TaskUse).GetRssKib, kibText}
	pageUse  = amount{"pages", (*tasks.TaskUse).GetPages, plainText}
	vmUse    = amount{"vmem", (*tasks.TaskUse).GetVmKib, kibText}
	writeUse = amount{"fs/disk", (*tasks.TaskUse).GetWriteBytes, plainText}

	inUses = []amount{cpuUse, readUse, rssUse, pageUse, vmUse}
)

func (u *Use) total(m amount) (n uint64) {
	for _, t := range u.Tasks {
		n += m.get(t.TaskUse)
	}
	return n
}

func (u *Use) average(m amount) uint64 { return u.total(m) / uint64(max(len(u.Tasks), 1)) }

// extreme is the first task that has most of something, or least.
func (u *Use) extreme(m amount, least bool) (best TaskUse) {
	for i, t := range u.Tasks {
		n, b := m.get(t.TaskUse), m.get(best.TaskUse)
		if i == 0 || n != b && least == (n < b) {
			best = t
		}
	}
	return best
}

// live makes a field of what a step uses.
func live(get func(*Use, Account) string) func(Account) string {
	return func(a Account) string {
		if a.Now == nil || len(a.Now.Tasks) == 0 {
			return ""
		}
		return get(a.Now, a)
	}
}

func liveMax(m amount, print func(Account, uint64) string) func(Account) string {
	return live(func(u *Use, a Account) string { return print(a, m.get(u.extreme(m, false).TaskUse)) })
}

func liveNode(m amount, least bool) func(Account) string {
	return live(func(u *Use, _ Account) string { return u.extreme(m, least).Node })
}

func liveTask(m amount, least bool) func(Account) string {
	return live(func(u *Use, _ Account) string { return u32(u.extreme(m, least).GetRank()) })
}

func liveAve(m amount, print func(Account, uint64) string) func(Account) string {
	return live(func(u *Use, a Account) string { return print(a, u.average(m)) })
}

// liveDisk prints bytes as sstat does: pieces that are counted in thousands only where that leaves nothing over, and a single one as if it were
// a million.
func liveDisk(a Account, n uint64) string {
	switch n {
	case 0:
		return "0"
	case 1:
		return "1.00M"
	}
	return tres.Format(float64(n), 0, a.Context.Unit)
}

// inList is a list of what goes in, with a number for each.
func inList(number func(*Use, amount) string) func(Account) string {
	return live(func(u *Use, _ Account) string {
		var terms []string
		for _, m := range inUses {
			terms = append(terms, m.name+"="+number(u, m))
			if m.name == "cpu" {
				terms = append(terms, "energy=0")
			}
		}
		return strings.Join(terms, ",")
	})
}

// inPlaces is a list of where most, or least, of what goes in was seen: by node, or by task.
func inPlaces(least, node bool) func(Account) string {
	return live(func(u *Use, _ Account) string {
		var terms []string
		for _, m := range inUses {
			t := u.extreme(m, least)
			at := u32(t.GetRank())
			if node {
				at = t.Node
			} else if m.name == "cpu" {
				at = Long(int64(t.GetRank()))
			}
			terms = append(terms, m.name+"="+at)
			if m.name == "cpu" && node {
				terms = append(terms, "energy="+t.Node)
			}
		}
		return strings.Join(terms, ",")
	})
}

func outList(number func(*Use) uint64) func(Account) string {
	return live(func(u *Use, _ Account) string { return fmt.Sprintf("energy=0,fs/disk=%d", number(u)) })
}

func outNode(least bool) func(Account) string {
	return live(func(u *Use, _ Account) string {
		n := u.extreme(writeUse, least).Node
		return "energy=" + n + ",fs/disk=" + n
	})
}

func outTask(least bool) func(Account) string {
	return live(func(u *Use, _ Account) string { return "fs/disk=" + u32(u.extreme(writeUse, least).GetRank()) })
}

func outExtreme(least bool) func(*Use) uint64 {
	return func(u *Use) uint64 { return u.extreme(writeUse, least).GetWriteBytes() }
}

// liveFreq is what was asked of the CPUs' frequency.
func liveFreq(a Account) string {
	if a.Now.Batch {
		return "0"
	}
	return "Unknown"
}

// SstatFields is every column of sstat, in the order of --helpformat.
var SstatFields = once.Value[[]AccountField]{Make: func() []AccountField {
	return []AccountField{
		{"AllocTRES", 10, 2302, 0, nothing},
		{"AveCPU", 10, 0, 0, liveAve(cpuUse, longCPU)},
		{"AveCPUFreq", 10, 0, 0, live(func(u *Use, a Account) string {
			if a.Context.Unit == tres.Plain {
				return kibText(u.KHz / 1000)
			}
			return fmt.Sprintf("%.2fM", float64(u.KHz)/1e6)
		})},
		{"AveDiskRead", 12, 0, 0, liveAve(readUse, liveDisk)},
		{"AveDiskWrite", 12, 0, 0, liveAve(writeUse, liveDisk)},
		{"AvePages", 10, 0, 0, liveAve(pageUse, plainCount)},
		{"AveRSS", 10, 0, 0, liveAve(rssUse, kib)},
		{"AveVMSize", 10, 0, 0, liveAve(vmUse, kib)},
		{"ConsumedEnergy", 14, 0, 0, live(func(*Use, Account) string { return "0" })},
		{"ConsumedEnergyRaw", 17, 0, 0, live(func(*Use, Account) string { return "0" })},
		{"JobID", -12, 0, 0, func(a Account) string { return a.Now.Label }},
		{"MaxDiskRead", 12, 0, 0, liveMax(readUse, liveDisk)},
		{"MaxDiskReadNode", 15, 0, 0, liveNode(readUse, false)},
		{"MaxDiskReadTask", 15, 0, 0, liveTask(readUse, false)},
		{"MaxDiskWrite", 12, 0, 0, liveMax(writeUse, liveDisk)},
		{"MaxDiskWriteNode", 16, 0, 0, liveNode(writeUse, false)},
		{"MaxDiskWriteTask", 16, 0, 0, liveTask(writeUse, false)},
		{"MaxPages", 8, 0, 0, liveMax(pageUse, plainCount)},
		{"MaxPagesNode", 12, 0, 0, liveNode(pageUse, false)},
		{"MaxPagesTask", 14, 0, 0, liveTask(pageUse, false)},
		{"MaxRSS", 10, 0, 0, liveMax(rssUse, kib)},
		{"MaxRSSNode", 10, 0, 0, liveNode(rssUse, false)},
		{"MaxRSSTask", 10, 0, 0, liveTask(rssUse, false)},
		{"MaxVMSize", 10, 0, 0, liveMax(vmUse, kib)},
		{"MaxVMSizeNode", 14, 0, 0, liveNode(vmUse, false)},
		{"MaxVMSizeTask", 14, 0, 0, liveTask(vmUse, false)},
		{"MinCPU", 10, 0, 0, live(func(u *Use, a Account) string { return longCPU(a, u.extreme(cpuUse, true).GetCpuUs()) })},
		{"MinCPUNode", 10, 0, 0, liveNode(cpuUse, true)},
		{"MinCPUTask", 10, 0, 0, liveTask(cpuUse, true)},
		{"Nodelist", 20, 0, 0, func(a Account) string { return a.Now.Nodes }},
		{"NTasks", 8, 0, 0, func(a Account) string { return strconv.Itoa(len(a.Now.Tasks)) }},
		{"Pids", 20, 0, 0, func(a Account) string {
			var list []string
			for _, p := range a.Now.Pids {
				list = append(list, u32(p))
			}
			return strings.Join(list, ",")
		}},
		{"ReqCPUFreq", 10, 0, 0, liveFreq},
		{"ReqCPUFreqMin", 13, 0, 0, liveFreq},
		{"ReqCPUFreqMax", 13, 0, 0, liveFreq},
		{"ReqCPUFreqGov", 13, 0, 0, liveFreq},
		{"SLUID", 14, 2511, 0, nothing},
		{"TRESUsageInAve", 14, 0, 0, inList(func(u *Use, m amount) string { return m.text(u.average(m)) })},
		{"TRESUsageInMax", 14, 0, 0, inList(func(u *Use, m amount) string { return m.text(m.get(u.extreme(m, false).TaskUse)) })},
		{"TRESUsageInMaxNode", 18, 0, 0, inPlaces(false, true)},
		{"TRESUsageInMaxTask", 18, 0, 0, inPlaces(false, false)},
		{"TRESUsageInMin", 14, 0, 0, inList(func(u *Use, m amount) string { return m.text(m.get(u.extreme(m, true).TaskUse)) })},
		{"TRESUsageInMinNode", 18, 0, 0, inPlaces(true, true)},
		{"TRESUsageInMinTask", 18, 0, 0, inPlaces(true, false)},
		{"TRESUsageInTot", 14, 0, 0, inList(func(u *Use, m amount) string { return m.text(u.total(m)) })},
		{"TRESUsageOutAve", 15, 0, 0, outList(func(u *Use) uint64 { return u.average(writeUse) })},
		{"TRESUsageOutMax", 15, 0, 0, outList(outExtreme(false))},
		{"TRESUsageOutMaxNode", 19, 0, 0, outNode(false)},
		{"TRESUsageOutMaxTask", 19, 0, 0, outTask(false)},
		{"TRESUsageOutMin", 15, 0, 0, outList(outExtreme(true))},
		{"TRESUsageOutMinNode", 19, 0, 0, outNode(true)},
		{"TRESUsageOutMinTask", 19, 0, 0, outTask(true)},
		{"TRESUsageOutTot", 15, 0, 0, outList(func(u *Use) uint64 { return u.total(writeUse) })},
	}

}}

// SstatTable reads the value of sstat's -o.
func SstatTable(format string, r slurm.Release) (Table, error) {
	return tableOf(SstatFields.Get(), format, r)
}

// SstatFieldNames is what sstat --helpformat prints.
func SstatFieldNames(r slurm.Release) string { return fieldNames(SstatFields.Get(), r) }
