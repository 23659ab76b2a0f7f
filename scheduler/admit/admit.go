// Package admit judges intents: what people wish becomes facts, or a refusal that says what is wrong and what to do.
//
// Intents are untrusted. Admission is the only code that reads their bodies, under limits on size, count and expansion, and
// under recover: a body that makes it fail is refused as INTERNAL, recorded, and nothing happens. Each intent gets exactly
// one verdict: Admitted, Configured, or Judged; what else it brings about are facts before the verdict. All is a function
// of the state, the intent and the time given.
package admit

import (
	"fmt"
	"slices"
	"strings"

	"stint/events"
	"stint/projections"
	"stint/scheduler/place"
)

// Limits on what one intent may hold. They are far above what people send and keep any one of them from being a burden.
const (
	MaxBody         = 256 << 10 // bytes of an intent's body
	MaxText         = 4 << 10   // bytes of a text field
	MaxList         = 64 << 10  // bytes of a host list
	MaxArgs         = 4096      // arguments of a script
	MaxArgBytes     = 64 << 10  // bytes of all arguments
	MaxTargets      = 10_000    // jobs or arrays named by an act of control
	MaxFilterNames  = 1000      // names in one list of a filter
	MaxVerdicts     = 100       // failures told one by one
	MaxDependencies = 256       // of one job
	MaxGres         = 32        // resources of one job
	MaxPartitions   = 32        // of one job
	MaxRlimits      = 32
	MaxConfigNodes  = 100_000
)

// Desk judges intents one after the other. It keeps what follows from the configuration between them; losing it changes
// nothing.
type Desk struct {
	board     *place.Board // everything configured, idle
	shapes    *place.Shapes
	configSeq uint64
	config    *events.Config
	nodes     []*projections.Node
	fresh     bool // the board is of the state at hand

	r    projections.Reader
	item *projections.InboxItem
	now  int64
	who  *events.Author
}

// NewDesk returns an empty desk.
func NewDesk() *Desk { return &Desk{} }

// Admit judges one intent on a state, at a time in microseconds.
func Admit(r projections.Reader, item *projections.InboxItem, now int64) []*events.Fact {
	return NewDesk().Admit(r, item, now)
}

// Admit judges one intent on a state, at a time in microseconds. The last fact is the verdict.
func (d *Desk) Admit(r projections.Reader, item *projections.InboxItem, now int64) (facts []*events.Fact) {
	d.r, d.item, d.now, d.who = r, item, now, item.Intent.GetAuthor()
	defer func() {
		if p := recover(); p != nil {
			facts = []*events.Fact{d.judged(refuse(events.Code_INTERNAL, "admission failed on this request: %.200s", fmt.Sprint(p)))}
		}
	}()
	if d.who == nil {
		return d.refused(refuse(events.Code_MALFORMED, "the request names no author"))
	}
	if len(item.Intent.Body) > MaxBody {
		return d.refused(refuse(events.Code_MALFORMED, "the request has %d bytes, at most %d are read", len(item.Intent.Body), MaxBody))
	}
	switch item.Intent.Verb {
	case events.Verb_SUBMIT:
		return read(d, &events.Submit{}, d.submit)
	case events.Verb_CANCEL:
		return read(d, &events.Cancel{}, d.cancel)
	case events.Verb_HOLD:
		return read(d, &events.Select{}, d.hold)
	case events.Verb_RELEASE:
		return read(d, &events.Select{}, d.release)
	case events.Verb_REQUEUE:
		return read(d, &events.Requeue{}, d.requeue)
	case events.Verb_UPDATE_JOB:
		return read(d, &events.UpdateJob{}, d.updateJob)
	case events.Verb_UPDATE_NODE:
		d.fresh = false
		return read(d, &events.UpdateNode{}, d.updateNode)
	case events.Verb_CONFIGURE:
		d.fresh = false
		return read(d, &events.Config{}, d.configure)
	case events.Verb_SUSPEND:
		return read(d, &events.Select{}, d.suspend)
	case events.Verb_COMPLETE:
		return read(d, &events.Complete{}, d.completed)
	case events.Verb_RESUME:
		return read(d, &events.Select{}, d.resume)
	case events.Verb_UPDATE_PARTITION:
		d.fresh = false
		return read(d, &events.UpdatePartition{}, d.updatePartition)
	case events.Verb_UPDATE_STEP:
		return read(d, &events.UpdateStep{}, d.updateStep)
	case events.Verb_NOTIFY:
		return read(d, &events.Notify{}, d.notify)
	case events.Verb_TOP:
		return read(d, &events.Select{}, d.top)
	case events.Verb_SET_CONFIG:
		return read(d, &events.SetConfig{}, d.setConfig)
	case events.Verb_CRONTAB:
		return read(d, &events.Crontab{}, d.crontab)
	case events.Verb_SET_TRIGGER:
		return read(d, &events.Trigger{}, d.setTrigger)
	case events.Verb_CLEAR_TRIGGERS:
		return read(d, &events.ClearTriggers{}, d.clearTriggers)
	case events.Verb_ADMINISTER:
		return read(d, &events.Policy{}, d.administer)
	}
	return d.refused(refuse(events.Code_UNSUPPORTED, "this controller does not know the verb %d", item.Intent.Verb))
}

type message interface{ UnmarshalVT([]byte) error }

func read[M message](d *Desk, m M, judge func(M) []*events.Fact) []*events.Fact {
	if err := m.UnmarshalVT(d.item.Intent.Body); err != nil {
		return d.refused(refuse(events.Code_MALFORMED, "the body of the request does not decode: %s", err))
	}
	return judge(m)
}

// refusal is a code for tools and a sentence for people. nil: fine.
type refusal struct {
	code events.Code
	text string
}

func refuse(code events.Code, format string, args ...any) *refusal {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

func fromProblem(p *place.Problem) *refusal {
	if p == nil {
		return nil
	}
	return &refusal{p.Code, p.Text}
}

func (d *Desk) ref() *events.IntentRef {
	return &events.IntentRef{Seq: d.item.Seq, Index: d.item.Index}
}

func (d *Desk) judged(r *refusal) *events.Fact {
	return judgedFact(&events.Judged{Intent: d.ref(), Code: r.code, Text: r.text})
}

func (d *Desk) refused(r *refusal) []*events.Fact { return []*events.Fact{d.judged(r)} }

func judgedFact(j *events.Judged) *events.Fact {
	return &events.Fact{Kind: &events.Fact_Judged{Judged: j}}
}

// maxShapes is how many different requests are remembered.
const maxShapes = 50_000

// IsAdmin says whether an author may act on everybody's jobs and on nodes: root, or one the configuration names.
func IsAdmin(cfg *events.Config, who *events.Author) bool {
	return projections.IsAdmin(cfg, who.GetUid(), who.GetUser())
}

func (d *Desk) admin() bool { return IsAdmin(d.r.Config(), d.who) }

// mayControl says whether the author may act on a job.
func (d *Desk) mayControl(j *projections.Job) bool {
	return j.GetOwner().GetUid() == d.who.GetUid() || d.admin()
}

// hidesJobs says whether whoever asks does not see others' jobs (PrivateData).
func (d *Desk) hidesJobs() bool {
	return !d.admin() && slices.Contains(d.r.Config().GetPrivateData(), events.Private_PRIVATE_JOBS)
}

// notYours refuses an act on another user's job; whose it is is told where that can be seen.
func (d *Desk) notYours(j *projections.Job) *refusal {
	if d.hidesJobs() {
		return refuse(events.Code_ACCESS_DENIED, "job %d is not yours", j.Id)
	}
	return refuse(events.Code_ACCESS_DENIED, "job %d belongs to %s", j.Id, j.GetOwner().GetUser())
}

// Begin says that intents of another state come: what was learned of the configuration is to be looked at again.
func (d *Desk) Begin() { d.fresh = false }

// Idle is the board of all that is configured, with nothing in use, for others who need it of the same state.
func (d *Desk) Idle(r projections.Reader) *place.Board {
	d.r = r
	return d.idle()
}

// idle is the board of what the configuration has, made once for each configuration and state of its node definitions.
func (d *Desk) idle() *place.Board {
	if d.fresh {
		return d.board
	}
	d.fresh = true
	nodes := d.r.Nodes()
	if d.board != nil && d.configSeq == d.r.ConfigSeq() && d.config == d.r.Config() && sameNodes(d.nodes, nodes) && d.shapes.Len() < maxShapes {
		return d.board
	}
	d.board, d.shapes = place.NewIdleBoard(d.r), place.NewShapes()
	d.configSeq, d.config, d.nodes = d.r.ConfigSeq(), d.r.Config(), nodes
	return d.board
}

// sameNodes says whether two lists hold nodes with the same definitions and devices.
func sameNodes(x, y []*projections.Node) bool {
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i] == y[i] {
			continue
		}
		if x[i].Def != y[i].Def || x[i].Future != y[i].Future || x[i].HasActive != y[i].HasActive || x[i].ActiveFeatures != y[i].ActiveFeatures || x[i].Removed != y[i].Removed || len(x[i].Gres) != len(y[i].Gres) {
			return false
		}
		for k := range x[i].Gres {
			if x[i].Gres[k].Name != y[i].Gres[k].Name || x[i].Gres[k].Type != y[i].Gres[k].Type || x[i].Gres[k].Count != y[i].Gres[k].Count {
				return false
			}
		}
	}
	return true
}

// text checks the length of text fields, given as name and value in turn.
func texts(most int, pairs ...string) *refusal {
	for i := 0; i+1 < len(pairs); i += 2 {
		if len(pairs[i+1]) > most {
			return refuse(events.Code_MALFORMED, "%s is %d bytes long, at most %d are taken", pairs[i], len(pairs[i+1]), most)
		}
		if strings.ContainsRune(pairs[i+1], 0) {
			return refuse(events.Code_MALFORMED, "%s holds a NUL byte", pairs[i])
		}
	}
	return nil
}
