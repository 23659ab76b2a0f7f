package sim

import (
	"fmt"
	"strings"

	"stint/events"
)

// notify tells a job something.
func (s *Script) notify(args []string) error {
	list, err := targets(args[:min(1, len(args))])
	if err != nil {
		return err
	}
	return s.verdict(1000, events.Verb_NOTIFY, &events.Notify{Targets: list, Text: strings.Join(args[1:], " ")})
}

// repartition makes, changes or removes a partition while the cluster runs.
func (s *Script) repartition(act string, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("name a partition")
	}
	m := &events.UpdatePartition{Name: args[0], Values: newPartition(args[0])}
	uid := uint32(0)
	var words []string
	for _, w := range args[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "user":
			n, err := number(value)
			if err != nil {
				return err
			}
			uid = n
		case "nodes+":
			m.AddNodes = value
		case "nodes-":
			m.RemoveNodes = value
		default:
			words = append(words, w)
		}
	}
	if err := readPartition(m.Values, words); err != nil {
		return err
	}
	switch act {
	case "create":
		m.Act = events.PartitionAct_PARTITION_CREATE
	case "change":
		m.Act = events.PartitionAct_PARTITION_CHANGE
		for _, w := range words {
			key, _, _ := strings.Cut(w, "=")
			m.Fields = append(m.Fields, map[string]uint32{"nodes": 2, "default": 3, "max": 4, "deftime": 5, "tier": 6, "maxnodes": 8, "groups": 10, "accounts": 11, "qos": 13, "state": 15, "exclusive": 18}[key])
		}
	case "delete":
		m.Act = events.PartitionAct_PARTITION_DELETE
	}
	return s.verdict(uid, events.Verb_UPDATE_PARTITION, m)
}

// loglevel says how much the controllers log.
func (s *Script) loglevel(args []string) error {
	m := &events.SetConfig{}
	for _, a := range args {
		switch {
		case strings.HasPrefix(a, "+"):
			m.FlagsOn = append(m.FlagsOn, a[1:])
		case strings.HasPrefix(a, "-"):
			m.FlagsOff = append(m.FlagsOff, a[1:])
		default:
			m.Debug = a
		}
	}
	return s.verdict(0, events.Verb_SET_CONFIG, m)
}
