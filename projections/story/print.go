package story

import (
	"encoding/json"
	"fmt"
	"strings"

	"stint/events"
	"stint/events/schema"
	"stint/ledger/rows"
)

// Text is one line for a terminal, without its end:
//
//	2026-11-30T13:59:56.123Z   4711.2  81_5       placed      controller: run 1 gets n1 (1 CPU, 100 MiB) (its turn)
func Text(l *rows.StoryLine) string {
	place := fmt.Sprintf("%d.%d", l.Seq, l.Index)
	if l.Index == Whole {
		place = fmt.Sprint(l.Seq)
	}
	subject := l.Label
	if subject == "" {
		subject = l.Node
	}
	if subject == "" {
		subject = "-"
	}
	text := fmt.Sprintf("%s %8s  %-10s %-12s %s: %s", clock(l.AtUs), place, Clean(subject), l.Kind, Clean(l.Who), Clean(l.What))
	if l.Why != "" {
		text += " (" + Clean(l.Why) + ")"
	}
	if l.Void {
		text += " [void]"
	}
	return text
}

// Clean keeps one thing on one line and terminals unharmed: names and comments come from users.
func Clean(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if unprintable(r) {
			return '?'
		}
		return r
	}, s)
}

func unprintable(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0xfffd }

// jsonLine is the form of a line in JSON. Fields are only ever added.
type jsonLine struct {
	Seq     uint64          `json:"seq"`
	Index   *uint32         `json:"index,omitempty"`
	Time    string          `json:"time"`
	Subject string          `json:"subject,omitempty"`
	Kind    string          `json:"kind"`
	Job     uint32          `json:"job,omitempty"`
	Label   string          `json:"label,omitempty"`
	Node    string          `json:"node,omitempty"`
	Who     string          `json:"who,omitempty"`
	What    string          `json:"what,omitempty"`
	Why     string          `json:"why,omitempty"`
	Void    bool            `json:"void,omitempty"`
	Fact    json.RawMessage `json:"fact,omitempty"`
}

// JSON is one line as a JSON object, without the end of the line.
func JSON(l *rows.StoryLine) []byte {
	j := jsonLine{Seq: l.Seq, Time: clock(l.AtUs), Subject: l.Subject, Kind: l.Kind, Job: l.Job, Label: l.Label, Node: l.Node,
		Who: l.Who, What: l.What, Why: l.Why, Void: l.Void}
	if l.Index != Whole {
		j.Index = &l.Index
	}
	if json.Valid([]byte(l.Raw)) {
		j.Fact = json.RawMessage(l.Raw)
	}
	out, err := json.Marshal(j)
	if err != nil {
		out, _ = json.Marshal(jsonLine{Seq: l.Seq, Kind: "unreadable", What: err.Error()})
	}
	return out
}

// Raw is the fact, intent or message that a line tells of, as JSON; bodies of intents are decoded. Empty if it cannot be told.
// Of requests it shows what seen makes of them.
func Raw(e *events.Event, l *rows.StoryLine, seen func(owner uint32, spec *events.JobSpec) *events.JobSpec) string {
	i := int(l.Index)
	switch {
	case l.Index == Whole && e.Sched != nil:
		return protoJSON(e.Sched)
	case l.Index == Whole && e.Share != nil:
		return protoJSON(e.Share)
	case e.Intents != nil && i < len(e.Intents.Intents):
		return intentJSON(e.Intents.Intents[i], seen)
	case e.Sched.GetCycle() != nil && i < len(e.Sched.GetCycle().Facts):
		return factJSON(e.Sched.GetCycle().Facts[i], seen)
	case e.Node != nil && i < len(e.Node.Facts):
		return protoJSON(e.Node.Facts[i])
	}
	return ""
}

func protoJSON(m schema.Message) string {
	out, err := schema.JSON(m)
	if err != nil {
		return ""
	}
	return compact(out)
}

// compact takes out the blanks that protojson puts in by chance of the build.
func compact(in []byte) string {
	var v json.RawMessage = in
	out, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(out)
}

func factJSON(f *events.Fact, seen func(uint32, *events.JobSpec) *events.JobSpec) string {
	if a := f.GetAdmitted(); a != nil {
		if spec := seen(a.GetOwner().GetUid(), a.Spec); spec != a.Spec {
			a = a.CloneVT()
			a.Spec = spec
			f = &events.Fact{Kind: &events.Fact_Admitted{Admitted: a}}
		}
	}
	if s := f.GetCrontabSet(); s.GetText() != "" && hidden(s.Uid, seen) {
		s = s.CloneVT()
		s.Text = ""
		f = &events.Fact{Kind: &events.Fact_CrontabSet{CrontabSet: s}}
	}
	return protoJSON(f)
}

// hidden says whether what is a user's alone is not shown.
func hidden(owner uint32, seen func(uint32, *events.JobSpec) *events.JobSpec) bool {
	probe := &events.JobSpec{Export: "A=b"}
	return seen(owner, probe) != probe
}

// intentJSON shows the body as the message it is.
func intentJSON(i *events.Intent, seen func(uint32, *events.JobSpec) *events.JobSpec) string {
	frame := i.CloneVT()
	frame.Body = nil
	text := protoJSON(frame)
	body := bodyOf(i)
	if text == "" || body == nil {
		return text
	}
	if s, ok := body.(*events.Submit); ok { // decoded for this, so it may be changed
		for n, spec := range s.Components {
			s.Components[n] = seen(i.GetAuthor().GetUid(), spec)
		}
	}
	if t, ok := body.(*events.Crontab); ok {
		owner := i.GetAuthor().GetUid()
		if t.Owner != nil {
			owner = t.Owner.Uid
		}
		for n, spec := range t.Entries {
			t.Entries[n] = seen(owner, spec)
		}
		if hidden(owner, seen) {
			t.Text = ""
		}
	}
	inner := protoJSON(body)
	if inner == "" {
		return text
	}
	return strings.TrimSuffix(text, "}") + `,"body":` + inner + "}"
}

func bodyOf(i *events.Intent) schema.Message {
	var m interface {
		schema.Message
		UnmarshalVT([]byte) error
	}
	switch i.GetVerb() {
	case events.Verb_SUBMIT:
		m = &events.Submit{}
	case events.Verb_CANCEL:
		m = &events.Cancel{}
	case events.Verb_NOTIFY:
		m = &events.Notify{}
	case events.Verb_UPDATE_STEP:
		m = &events.UpdateStep{}
	case events.Verb_UPDATE_PARTITION:
		m = &events.UpdatePartition{}
	case events.Verb_HOLD, events.Verb_RELEASE, events.Verb_SUSPEND, events.Verb_RESUME, events.Verb_TOP:
		m = &events.Select{}
	case events.Verb_COMPLETE:
		m = &events.Complete{}
	case events.Verb_REQUEUE:
		m = &events.Requeue{}
	case events.Verb_UPDATE_JOB:
		m = &events.UpdateJob{}
	case events.Verb_UPDATE_NODE:
		m = &events.UpdateNode{}
	case events.Verb_CONFIGURE:
		m = &events.Config{}
	case events.Verb_CRONTAB:
		m = &events.Crontab{}
	case events.Verb_SET_TRIGGER:
		m = &events.Trigger{}
	case events.Verb_CLEAR_TRIGGERS:
		m = &events.ClearTriggers{}
	case events.Verb_ADMINISTER:
		m = &events.Policy{}
	default:
		return nil
	}
	if m.UnmarshalVT(i.GetBody()) != nil {
		return nil
	}
	return m
}
