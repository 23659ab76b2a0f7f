package format

import (
	"fmt"
	"strconv"
	"strings"

	"stint/cli/slurm"
	"stint/events"
)

// ManagerField is one column of sacctmgr: a name (any beginning of at least so many letters means it), the head and the
// width, negative for left justified.
type ManagerField struct {
	Name  string
	Least int
	Head  string
	Width int
	Limit events.Limit // of a limit: which
	Tres  string       // of the old columns for one resource: which
}

// ManagerFields is every column of sacctmgr, whatever is shown. Of two that a beginning fits, the first is meant.
var ManagerFields = []ManagerField{
	{"Account", 3, "Account", 10, 0, ""},
	{"ActionRaw", 7, "ActionRaw", 10, 0, ""},
	{"Action", 4, "Action", 20, 0, ""},
	{"Actor", 4, "Actor", 10, 0, ""},
	{"AdminLevel", 2, "Admin", 9, 0, ""},
	{"Allocated", 2, "% Allocated", 11, 0, ""},
	{"Cluster", 2, "Cluster", 10, 0, ""},
	{"Classification", 3, "Class", 9, 0, ""},
	{"ClusterNodes", 8, "Cluster Nodes", 20, 0, ""},
	{"Comment", 3, "Comment", 20, 0, ""},
	{"ControlHost", 8, "ControlHost", 15, 0, ""},
	{"ControlPort", 8, "ControlPort", 12, 0, ""},
	{"Coordinators", 2, "Coord Accounts", 20, 0, ""},
	{"Count", 5, "Count", 6, 0, ""},
	{"DefaultAccount", 8, "Def Acct", 10, 0, ""},
	{"DefAcct", 4, "Def Acct", 10, 0, ""},
	{"DefaultQOS", 8, "Def QOS", 9, 0, ""},
	{"DefQOS", 4, "Def QOS", 9, 0, ""},
	{"DefaultWCKey", 8, "Def WCKey", 10, 0, ""},
	{"DefWCKey", 4, "Def WCKey", 10, 0, ""},
	{"Description", 1, "Descr", 20, 0, ""},
	{"Duration", 2, "Duration", 13, 0, ""},
	{"End", 2, "TimeEnd", 19, 0, ""},
	{"Event", 2, "Event", 7, 0, ""},
	{"Fairshare", 2, "Share", 9, events.Limit_SHARES, ""},
	{"Features", 3, "Features", 20, 0, ""},
	{"Federation", 3, "Federation", 10, 0, ""},
	{"FedState", 4, "FedState", 12, 0, ""},
	{"Flags", 2, "Flags", 20, 0, ""},
	{"GraceTime", 3, "GraceTime", 10, events.Limit_GRACE_TIME, ""},
	{"GrpCPUMins", 8, "GrpCPUMins", 11, events.Limit_GRP_TRES_MINS, "cpu"},
	{"GrpCPURunMins", 7, "GrpCPURunMins", 13, events.Limit_GRP_TRES_RUN_MINS, "cpu"},
	{"GrpCPUs", 4, "GrpCPUs", 8, events.Limit_GRP_TRES, "cpu"},
	{"GrpTRES", 5, "GrpTRES", 13, events.Limit_GRP_TRES, ""},
	{"GrpTRESMins", 8, "GrpTRESMins", 13, events.Limit_GRP_TRES_MINS, ""},
	{"GrpTRESRunMins", 8, "GrpTRESRunMins", 13, events.Limit_GRP_TRES_RUN_MINS, ""},
	{"GrpJobs", 4, "GrpJobs", 7, events.Limit_GRP_JOBS, ""},
	{"GrpJobsAccrue", 8, "GrpJobsAccrue", 13, events.Limit_GRP_JOBS_ACCRUE, ""},
	{"GrpMemory", 4, "GrpMem", 7, events.Limit_GRP_TRES, "mem"},
	{"GrpNodes", 4, "GrpNodes", 8, events.Limit_GRP_TRES, "node"},
	{"GrpSubmitJobs", 4, "GrpSubmit", 9, events.Limit_GRP_SUBMIT, ""},
	{"GrpWall", 4, "GrpWall", 11, events.Limit_GRP_WALL, ""},
	{"ID", 2, "ID", 6, 0, ""},
	{"Info", 2, "Info", 20, 0, ""},
	{"LFT", 1, "LFT", 6, 0, ""},
	{"LimitFactor", 2, "LimitFactor", 11, events.Limit_LIMIT_FACTOR, ""},
	{"MaxCPUMinsPerJob", 7, "MaxCPUMins", 11, events.Limit_MAX_TRES_MINS_PER_JOB, "cpu"},
	{"MaxCPURunMins", 7, "MaxCPURunMins", 15, events.Limit_MAX_TRES_RUN_MINS, "cpu"},
	{"MaxCPUsPerUser", 11, "MaxCPUsPU", 9, events.Limit_MAX_TRES_PER_USER, "cpu"},
	{"MaxCPUsPerJob", 4, "MaxCPUs", 8, events.Limit_MAX_TRES_PER_JOB, "cpu"},
	{"MaxTRES", 5, "MaxTRES", 13, events.Limit_MAX_TRES_PER_JOB, ""},
	{"MaxTRESPJ", 9, "MaxTRES", 13, events.Limit_MAX_TRES_PER_JOB, ""},
	{"MaxTRESPerJob", 11, "MaxTRES", 13, events.Limit_MAX_TRES_PER_JOB, ""},
	{"MaxTRESPA", 9, "MaxTRESPA", 13, events.Limit_MAX_TRES_PER_ACCOUNT, ""},
	{"MaxTRESPerAccount", 11, "MaxTRESPA", 13, events.Limit_MAX_TRES_PER_ACCOUNT, ""},
	{"MaxTRESPN", 9, "MaxTRESPerNode", 14, events.Limit_MAX_TRES_PER_NODE, ""},
	{"MaxTRESPerNode", 11, "MaxTRESPerNode", 14, events.Limit_MAX_TRES_PER_NODE, ""},
	{"MaxTRESMinsPerJob", 8, "MaxTRESMins", 13, events.Limit_MAX_TRES_MINS_PER_JOB, ""},
	{"MaxTRESMinsPJ", 12, "MaxTRESMins", 13, events.Limit_MAX_TRES_MINS_PER_JOB, ""},
	{"MaxTRESRunMinsPA", 15, "MaxTRESRunMinsPA", 15, events.Limit_MAX_TRES_RUN_MINS_PER_ACCOUNT, ""},
	{"MaxTRESRunMinsPU", 8, "MaxTRESRunMinsPU", 15, events.Limit_MAX_TRES_RUN_MINS_PER_USER, ""},
	{"MaxTRESPU", 9, "MaxTRESPU", 13, events.Limit_MAX_TRES_PER_USER, ""},
	{"MaxTRESPerUser", 11, "MaxTRESPU", 13, events.Limit_MAX_TRES_PER_USER, ""},
	{"MaxJobs", 4, "MaxJobs", 7, events.Limit_MAX_JOBS, ""},
	{"MaxJobsPA", 9, "MaxJobsPA", 9, events.Limit_MAX_JOBS_PER_ACCOUNT, ""},
	{"MaxJobsPerAccount", 11, "MaxJobsPA", 9, events.Limit_MAX_JOBS_PER_ACCOUNT, ""},
	{"MaxJobsPU", 8, "MaxJobsPU", 9, events.Limit_MAX_JOBS_PER_USER, ""},
	{"MaxJobsPerUser", 11, "MaxJobsPU", 9, events.Limit_MAX_JOBS_PER_USER, ""},
	{"MaxJobsAccrue", 8, "MaxJobsAccrue", 13, events.Limit_MAX_JOBS_ACCRUE, ""},
	{"MaxJobsAccruePA", 15, "MaxJobsAccruePA", 15, events.Limit_MAX_JOBS_ACCRUE_PER_ACCOUNT, ""},
	{"MaxJobsAccruePU", 14, "MaxJobsAccruePU", 15, events.Limit_MAX_JOBS_ACCRUE_PER_USER, ""},
	{"MaxNodesPerUser", 12, "MaxNodesPU", 10, events.Limit_MAX_TRES_PER_USER, "node"},
	{"MaxNodesPerJob", 4, "MaxNodes", 8, events.Limit_MAX_TRES_PER_JOB, "node"},
	{"MaxSubmitJobs", 4, "MaxSubmit", 9, events.Limit_MAX_SUBMIT, ""},
	{"MaxSubmitPA", 11, "MaxSubmitPA", 11, events.Limit_MAX_SUBMIT_PER_ACCOUNT, ""},
	{"MaxSubmitJobsPA", 15, "MaxSubmitPA", 11, events.Limit_MAX_SUBMIT_PER_ACCOUNT, ""},
	{"MaxSubmitPU", 10, "MaxSubmitPU", 11, events.Limit_MAX_SUBMIT_PER_USER, ""},
	{"MaxSubmitJobsPU", 14, "MaxSubmitPU", 11, events.Limit_MAX_SUBMIT_PER_USER, ""},
	{"MaxSubmitJobsPerUser", 15, "MaxSubmitPU", 11, events.Limit_MAX_SUBMIT_PER_USER, ""},
	{"MaxWallDurationPerJob", 4, "MaxWall", 11, events.Limit_MAX_WALL, ""},
	{"MaxWallPJ", 8, "MaxWall", 11, events.Limit_MAX_WALL, ""},
	{"MinPrioThreshold", 4, "MinPrioThres", 12, events.Limit_MIN_PRIO_THRESHOLD, ""},
	{"MinCPUsPerJob", 7, "MinCPUs", 8, events.Limit_MIN_TRES_PER_JOB, "cpu"},
	{"MinTRESPerJob", 7, "MinTRES", 13, events.Limit_MIN_TRES_PER_JOB, ""},
	{"PluginIDSelect", 2, "PluginIDSelect", 14, 0, ""},
	{"Name", 2, "Name", 10, 0, ""},
	{"NodeName", 5, "NodeName", -15, 0, ""},
	{"NodeCount", 5, "NodeCount", 10, 0, ""},
	{"Organization", 1, "Org", 20, 0, ""},
	{"ParentID", 7, "Par ID", 6, 0, ""},
	{"ParentName", 7, "ParentName", 10, 0, ""},
	{"Partition", 4, "Partition", 10, 0, ""},
	{"PreemptMode", 8, "PreemptMode", 11, 0, ""},
	{"PreemptExemptTime", 8, "PreemptExemptTime", 19, events.Limit_PREEMPT_EXEMPT_TIME, ""},
	{"Preempt", 3, "Preempt", 10, 0, ""},
	{"Priority", 3, "Priority", 10, events.Limit_PRIORITY_VALUE, ""},
	{"Problem", 1, "Problem", 40, 0, ""},
	{"QOSLevel", 3, "QOS", 20, 0, ""},
	{"QOSRAW", 4, "QOS_RAW", 10, 0, ""},
	{"Reason", 1, "Reason", 30, 0, ""},
	{"RPC", 1, "RPC", 5, 0, ""},
	{"Share", 1, "Share", 9, events.Limit_SHARES, ""},
	{"Server", 2, "Server", 10, 0, ""},
	{"ServerType", 7, "ServerType", 10, 0, ""},
	{"StateRaw", 6, "StateRaw", 8, 0, ""},
	{"State", 3, "State", 6, 0, ""},
	{"Start", 3, "TimeStart", 19, 0, ""},
	{"TimeStart", 5, "TimeStart", 19, 0, ""},
	{"TimeEnd", 5, "TimeEnd", 19, 0, ""},
	{"Time", 4, "Time", 19, 0, ""},
	{"RGT", 1, "RGT", 6, 0, ""},
	{"TRES", 2, "TRES", 20, 0, ""},
	{"Type", 2, "Type", 8, 0, ""},
	{"UnusedWall", 2, "UnusedWall", 10, 0, ""},
	{"UsageFactor", 6, "UsageFactor", 11, events.Limit_USAGE_FACTOR, ""},
	{"UsageThreshold", 6, "UsageThres", 10, events.Limit_USAGE_THRESHOLD, ""},
	{"User", 1, "User", 10, 0, ""},
	{"WCKeys", 6, "WCKeys", 20, 0, ""},
	{"WCKey", 2, "WCKey", 10, 0, ""},
	{"Where", 2, "Where", 20, 0, ""},
}

// ManagerColumn is a field as it is to be printed.
type ManagerColumn struct {
	*ManagerField
	Width int
}

// ManagerColumns reads a format: NAME[%WIDTH],…  The error names the first that is none.
func ManagerColumns(spec string) ([]ManagerColumn, error) {
	var out []ManagerColumn
	for _, item := range strings.Split(spec, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, width, has := strings.Cut(item, "%")
		f := managerField(name)
		if f == nil {
			return nil, fmt.Errorf("Unknown field '%s'", name)
		}
		c := ManagerColumn{f, f.Width}
		if has {
			n, err := strconv.Atoi(width)
			if err != nil || n == 0 || n > 4096 || n < -4096 {
				return nil, fmt.Errorf("%q is no width of field %s", width, name)
			}
			c.Width = n
		}
		out = append(out, c)
	}
	return out, nil
}

func managerField(name string) *ManagerField {
	for i := range ManagerFields {
		if strings.EqualFold(ManagerFields[i].Name, name) {
			return &ManagerFields[i]
		}
	}
	for i := range ManagerFields {
		if slurm.Keyed(name, ManagerFields[i].Name, ManagerFields[i].Least) {
			return &ManagerFields[i]
		}
	}
	return nil
}

// ManagerRow is what one row has in each field; nil-like fields are empty.
type ManagerRow func(f *ManagerField) string

// ManagerStyle is how a table is printed. Parsable as sacctmgr's: 0 columns, 1 ended by |, 2 separated by it.
type ManagerStyle struct {
	NoHeader bool
	Parsable int
}

// Manager prints a table of sacctmgr.
func Manager(b *strings.Builder, style ManagerStyle, cols []ManagerColumn, n int, row func(int) ManagerRow) {
	line := func(value func(*ManagerColumn) string, head bool) {
		for i := range cols {
			c := &cols[i]
			v := value(c)
			switch style.Parsable {
			case 1:
				b.WriteString(v)
				b.WriteByte('|')
			case 2:
				if i > 0 {
					b.WriteByte('|')
				}
				b.WriteString(v)
			default:
				managerCell(b, v, c.Width, !head)
			}
		}
		b.WriteByte('\n')
	}
	if !style.NoHeader {
		line(func(c *ManagerColumn) string { return c.Head }, true)
		if style.Parsable == 0 {
			for i := range cols {
				b.WriteString(strings.Repeat("-", max(cols[i].Width, -cols[i].Width)))
				b.WriteByte(' ')
			}
			b.WriteByte('\n')
		}
	}
	for i := range n {
		r := row(i)
		line(func(c *ManagerColumn) string { return r(c.ManagerField) }, false)
	}
}

// managerCell prints a value into its width and a blank: what is too long is cut, values with a + in the last place.
func managerCell(b *strings.Builder, v string, width int, mark bool) {
	left := width < 0
	width = max(width, -width)
	r := []rune(v)
	if len(r) > width {
		r = r[:width]
		if mark {
			r[width-1] = '+'
		}
	}
	pad := strings.Repeat(" ", width-len(r))
	if !left {
		b.WriteString(pad)
	}
	b.WriteString(string(r))
	if left {
		b.WriteString(pad)
	}
	b.WriteByte(' ')
}
