package sim

import (
	"fmt"
	"strconv"
	"strings"

	"stint/cli/slurm"
	"stint/events"
)

// zone says what local time leaders see: seconds east of UTC, and from when on others.
func (s *Script) zone(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("give the seconds east of UTC")
	}
	offset, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	z := &events.Zone{OffsetS: int32(offset)}
	for _, a := range args[1:] {
		at, text, _ := strings.Cut(strings.TrimPrefix(a, "+"), "=")
		n, err := number(at)
		if err != nil {
			return err
		}
		if offset, err = strconv.Atoi(text); err != nil {
			return err
		}
		z.Shifts = append(z.Shifts, &events.ZoneShift{AtUs: Epoch + int64(n)*Second, OffsetS: int32(offset)})
	}
	s.World.zone = z
	return nil
}

// crontab sets or removes a user's crontab.
func (s *Script) crontab(args []string) error {
	m, uid := &events.Crontab{}, uint32(1000)
	if len(args) > 0 && strings.HasPrefix(args[0], "user=") {
		n, err := number(strings.TrimPrefix(args[0], "user="))
		if err != nil {
			return err
		}
		uid, args = n, args[1:]
	}
	if len(args) > 0 && strings.HasPrefix(args[0], "of=") {
		n, err := number(strings.TrimPrefix(args[0], "of="))
		if err != nil {
			return err
		}
		m.Owner, args = author(n), args[1:]
	}
	for _, entry := range strings.Split(strings.Join(args, " "), " | ") {
		words := strings.Fields(entry)
		if len(words) < 6 {
			break
		}
		list, err := slurm.ReadCrontab(strings.Join(words[:6], " "), slurm.SbatchInput{Dir: "/"})
		if err != nil {
			return err
		}
		spec, _, err := readSpec(words[5:], s.World.wall(s.World.now))
		if err != nil {
			return err
		}
		spec.Cron = list[0].Spec.Cron
		spec.Cron.FirstLine, spec.Cron.LastLine = uint32(len(m.Entries)), uint32(len(m.Entries))
		m.Entries, m.Text = append(m.Entries, spec), m.Text+entry+"\n"
	}
	m.Remove = len(m.Entries) == 0
	return s.verdict(uid, events.Verb_CRONTAB, m)
}

func (s *Script) crontabs() {
	for _, t := range s.World.Fold.Crontabs() {
		line := fmt.Sprintf("%s: jobs %v", t.User, t.Jobs)
		for _, d := range t.Disabled {
			line += fmt.Sprintf(", disabled %d-%d", d.First, d.Last)
		}
		s.print("%s", line)
	}
	if len(s.World.Fold.Crontabs()) == 0 {
		s.print("no crontabs")
	}
}

var triggerKinds = map[string]events.TriggerKind{
	"up": events.TriggerKind_TRIGGER_UP, "down": events.TriggerKind_TRIGGER_DOWN, "fail": events.TriggerKind_TRIGGER_FAIL, "time": events.TriggerKind_TRIGGER_TIME,
	"fini": events.TriggerKind_TRIGGER_FINI, "reconfig": events.TriggerKind_TRIGGER_RECONFIG, "idle": events.TriggerKind_TRIGGER_IDLE, "drained": events.TriggerKind_TRIGGER_DRAINED,
	"draining": events.TriggerKind_TRIGGER_DRAINING, "resume": events.TriggerKind_TRIGGER_RESUME, "failed": events.TriggerKind_TRIGGER_CONTROLLER_FAILED,
	"resumed": events.TriggerKind_TRIGGER_CONTROLLER_RESUMED, "assumed": events.TriggerKind_TRIGGER_CONTROL_ASSUMED,
}

// trigger sets a trigger, or clears some.
func (s *Script) trigger(set bool, args []string) error {
	t, c, uid := &events.Trigger{Nodes: "*", Program: "/bin/true"}, &events.ClearTriggers{}, uint32(0)
	err := options(args, func(key, value string) error {
		n, _ := number(value)
		kind, isKind := triggerKinds[key]
		switch {
		case isKind:
			t.Kinds = append(t.Kinds, kind)
			if kind >= events.TriggerKind_TRIGGER_CONTROLLER_FAILED {
				t.Of, t.Nodes = events.TriggerOf_TRIGGER_CONTROLLER, ""
			}
		case key == "nodes":
			t.Nodes = value
		case key == "job":
			t.Of, t.Nodes, t.Job, c.Job = events.TriggerOf_TRIGGER_JOB, "", n, n
		case key == "offset":
			offset, err := strconv.Atoi(value)
			t.OffsetS = int32(offset)
			return err
		case key == "perm":
			t.Permanent = true
		case key == "program":
			t.Program = value
		case key == "id":
			c.Id = n
		case key == "owner":
			c.Uid = &n
		case key == "user":
			uid = n
		default:
			return fmt.Errorf("no such option")
		}
		return nil
	})
	if err != nil {
		return err
	}
	if set {
		return s.verdict(uid, events.Verb_SET_TRIGGER, t)
	}
	return s.verdict(uid, events.Verb_CLEAR_TRIGGERS, c)
}

func (s *Script) triggers() {
	for _, t := range s.World.Fold.Triggers() {
		s.print("%d of %s, noted %v", t.Trigger.Id, t.Trigger.GetOwner().GetUser(), t.Hits)
	}
	if len(s.World.Fold.Triggers()) == 0 {
		s.print("no triggers")
	}
}
