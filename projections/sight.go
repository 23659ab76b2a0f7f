package projections

import (
	"slices"
	"strings"

	"stint/events"
)

// Sight is what somebody who asks may see of what is others'. Who it is comes from the agent, which knows it from the kernel.
//
// As in Slurm, everybody sees that others' jobs are there, what they ask for, and the command they run, unless the
// configuration says otherwise (PrivateData); but what is in a job's environment and script only its owner and administrators
// see, wherever it may be written: the values of variables that --export sets, the text of --wrap.
type Sight struct {
	uid     uint32
	known   bool // a question that names nobody is nobody's, and not root's
	all     bool
	private []events.Private
}

// SightOf is the sight of a user under a configuration; of nil, the sight of nobody, who owns nothing and administers nothing.
func SightOf(c *events.Config, uid *uint32) Sight {
	if uid == nil {
		return Sight{private: c.GetPrivateData()}
	}
	return Sight{uid: *uid, known: true, all: IsAdmin(c, *uid, ""), private: c.GetPrivateData()}
}

// IsAdmin says whether a user may act on everybody's jobs and on nodes, and see everything: root, or one whom the configuration
// names.
func IsAdmin(c *events.Config, uid uint32, user string) bool {
	return uid == 0 || slices.Contains(c.GetAdminUids(), uid) || user != "" && slices.Contains(c.GetAdmins(), user)
}

// Owns says whether all of what a user owns is shown.
func (s Sight) Owns(uid uint32) bool { return s.all || s.known && uid == s.uid }

// Private says whether the configuration keeps something from whoever asks, where it is not their own.
func (s Sight) Private(what events.Private) bool { return !s.all && slices.Contains(s.private, what) }

// SeesJob says whether it is shown that a user's job is there at all.
func (s Sight) SeesJob(owner uint32) bool {
	return s.Owns(owner) || !s.Private(events.Private_PRIVATE_JOBS)
}

// Spec is what is shown of a request: the request itself, or a copy without what is its owner's alone.
func (s Sight) Spec(owner uint32, spec *events.JobSpec) *events.JobSpec {
	if spec == nil || s.Owns(owner) || spec.Export == "" && spec.SubmitLine == "" && spec.Script == nil && spec.Environment == nil {
		return spec
	}
	spec = spec.CloneVT()
	spec.Script, spec.Environment = where(spec.Script), where(spec.Environment)
	spec.Export, spec.SubmitLine = maskExport(spec.Export), maskLine(spec.SubmitLine)
	return spec
}

// where is a reference to a blob without the hash of what is in it. The rest stays: the agent hands the blob to its owner only,
// and says so to others.
func where(ref *events.BlobRef) *events.BlobRef {
	if ref == nil {
		return nil
	}
	return &events.BlobRef{Subject: ref.Subject, Offset: ref.Offset, Length: ref.Length}
}

// Row is what is shown of a kept job's command line and script.
func (s Sight) Row(owner uint32, line string, script *events.BlobRef) (string, *events.BlobRef) {
	if s.Owns(owner) {
		return line, script
	}
	return maskLine(line), where(script)
}

// Job is what is shown of a job that is seen.
func (s Sight) Job(j *Job) *Job {
	spec := s.Spec(j.GetOwner().GetUid(), j.GetSpec())
	if spec == j.GetSpec() {
		return j
	}
	thin := j.copy()
	thin.Spec = spec
	return thin
}

// Node is what is shown of a node: all, or, if the state of nodes is private, its name and what is configured.
func (s Sight) Node(n *Node) *Node {
	if n == nil || !s.Private(events.Private_PRIVATE_NODES) {
		return n
	}
	return &Node{Name: n.Name, Index: n.Index, Def: n.Def}
}

// masked stands for what is not shown.
const masked = "…"

// maskExport hides the values in the value of --export. A value may hold commas, so all behind the first of them is hidden.
func maskExport(text string) string {
	if name, _, sets := strings.Cut(text, "="); sets {
		return name + "=" + masked
	}
	return text
}

// maskLine hides, in a command line as sbatch keeps it (words apart by blanks, quoted as a shell would), what sets variables
// and what is the text of a script. Of words that do not end, since the line was cut short, nothing is shown.
func maskLine(line string) string {
	var out []string
	hide := false
	for rest := line; rest != ""; {
		raw, word, left, whole := nextWord(rest)
		rest = left
		name, value, has := strings.Cut(word, "=")
		option := secretOption(name)
		switch {
		case hide:
			raw, hide = masked, false
		case option && has && strings.HasPrefix(name, "--e"):
			raw = name + "=" + maskExport(value)
		case option && has:
			raw = name + "=" + masked
		case option:
			hide = true
		case !whole:
			raw = masked
		}
		out = append(out, raw)
	}
	return strings.Join(out, " ")
}

// secretOption says whether an option, as it may be shortened, is --export or --wrap.
func secretOption(name string) bool {
	return len(name) >= len("--exp") && strings.HasPrefix("--export", name) || len(name) >= len("--wr") && strings.HasPrefix("--wrap", name)
}

// nextWord takes the first word off a line: as it stands, and without its quotes. whole is false if its quotes do not end.
func nextWord(line string) (raw, word, rest string, whole bool) {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			quoted = !quoted
		case !quoted && c == '\\' && i+1 < len(line):
			i++
			b.WriteByte(line[i])
		case !quoted && c == ' ':
			return line[:i], b.String(), strings.TrimLeft(line[i:], " "), true
		default:
			b.WriteByte(c)
		}
	}
	return line, b.String(), "", !quoted
}
