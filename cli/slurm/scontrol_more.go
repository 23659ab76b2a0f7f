package slurm

import (
	"strconv"
	"strings"

	"stint/events"
)

// more reads the commands of scontrol that take words of their own.
func (s *Scontrol) more(args []string) error {
	few := func(n int) error {
		if len(args) < n {
			return refusal("too few arguments for keyword:%s", s.Verb)
		}
		return nil
	}
	switch s.Verb {
	case "top":
		if err := few(1); err != nil {
			return err
		}
		return s.select_(args)
	case "notify":
		if err := few(2); err != nil {
			return err
		}
		t, err := ParseTarget(args[0])
		if err != nil {
			return refusal("Invalid job id specified: %s", clip(args[0]))
		}
		s.Targets, s.Text = []*events.Target{t}, strings.Join(args[1:], " ")
		if len(s.Text) > maxText || strings.ContainsRune(s.Text, 0) {
			return refusal("the message is longer than %d bytes, or holds a zero byte", maxText)
		}
		return nil
	case "errnumstr":
		if len(args) != 1 {
			return refusal("one argument required for keyword:errnumstr")
		}
		n, err := strconv.ParseInt(args[0], 10, 32)
		if err != nil {
			return refusal("numeric argument required for keyword:errnumstr, not %s", clip(args[0]))
		}
		s.Number = n
		return nil
	case "create", "delete":
		if err := few(1); err != nil {
			return err
		}
		return s.createOrDelete(args)
	case "cluster":
		if len(args) > 1 {
			return refusal("too many arguments for keyword:cluster")
		}
		s.Clusters = strings.Join(args, "")
		return nil
	case "setdebug", "setdebugflags":
		if err := few(1); err != nil {
			return err
		}
		return s.debug(args)
	case "pidinfo":
		if len(args) != 1 {
			return refusal("missing argument for keyword:pidinfo")
		}
		n, err := strconv.ParseInt(args[0], 10, 32)
		if err != nil || n <= 0 {
			return refusal("%s is not a process", clip(args[0]))
		}
		s.Number = n
		return nil
	}
	if len(args) > 2 {
		return refusal("too many arguments for keyword:%s", s.Verb)
	}
	if s.Verb == "listpids" && len(args) > 0 {
		t, err := ParseTarget(args[0])
		if err != nil {
			return refusal("Invalid job id specified: %s", clip(args[0]))
		}
		s.Targets = []*events.Target{t}
	}
	s.IDs = args
	return nil
}

// createOrDelete reads create and delete of a partition; of reservations and nodes it says that they are not.
func (s *Scontrol) createOrDelete(args []string) error {
	var changes []change
	kind := ""
	for i, a := range args {
		key, value, joined := strings.Cut(a, "=")
		k := strings.ToLower(key)
		if !joined && kind == "" && i == 0 && len(args) > 1 && s.Verb == "delete" { // delete partition NAME
			value, args = args[1], args[:1]
		} else if !joined {
			return refusal("%s is not KEY=VALUE", clip(a))
		}
		switch {
		case kind == "" && (k == "partition" || k == "partitionname"):
			kind, s.Name = "partition", value
		case kind == "" && (k == "reservation" || k == "reservationname"):
			return refusal("scontrol %s reservation is not supported by Stint yet", s.Verb)
		case kind == "" && (k == "nodename" || k == "node"):
			return refusal("nodes are configured in slurm.conf: scontrol %s makes partitions", s.Verb)
		default:
			op := byte('=')
			if last := k[max(len(k)-1, 0):]; last == "+" || last == "-" {
				k, op = k[:len(k)-1], last[0]
			}
			changes = append(changes, change{k, value, op})
		}
		if !joined {
			break
		}
	}
	switch {
	case kind == "":
		return refusal("say what to %s: PartitionName= is missing", s.Verb)
	case s.Verb == "delete" && len(changes) > 0:
		return refusal("delete takes the name of the partition and nothing more")
	case s.Verb == "delete":
		s.partition(events.PartitionAct_PARTITION_DELETE, nil)
	default:
		s.partition(events.PartitionAct_PARTITION_CREATE, changes)
	}
	return nil
}

func (s *Scontrol) partition(act events.PartitionAct, changes []change) {
	s.Act, s.Entity = act, "partition"
	for _, c := range changes {
		s.Changes = append(s.Changes, Change{c.key, c.value, c.op})
	}
}
