package conf

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"stint/cli/slurm/once"
	"stint/events"
)

// Requests is what one ordinary user may ask a cluster for: a bucket of tokens, of which a request takes one and which is filled
// again bit by bit (slurm.conf, SlurmctldParameters, rl_*); and how large a script may be.
type Requests struct {
	All    bool // rl_enable: also what submits and changes takes a token; otherwise questions alone do
	Bucket uint32
	Refill uint32 // tokens every Period
	Period time.Duration
	Log    time.Duration // the least time between two lines of the log about it; negative: none
	Script int           // max_script_size in bytes, 0 if the site says nothing
}

// OwnRequests is what holds where the site says nothing.
func OwnRequests() Requests {
	return Requests{Bucket: 400, Refill: 100, Period: time.Second, Log: 10 * time.Second}
}

// PerSecond is how many requests a second one user may make for long.
func (r Requests) PerSecond() float64 { return float64(r.Refill) / r.Period.Seconds() }

// RequestsOf returns what a configuration says of it.
func RequestsOf(settings []*events.Setting) Requests {
	r, script := OwnRequests(), 0
	for _, s := range settings {
		switch s.GetKey() {
		case "SlurmctldParameters":
			if given, _, _, err := controllerParameters(s.GetValue()); err == nil { // else it would not have been taken over
				r = given
			}
		case "SchedulerParameters":
			script = 0
			for _, term := range list(s.GetValue()) {
				if name, value, _ := strings.Cut(term, "="); strings.EqualFold(name, "max_script_size") {
					script, _ = strconv.Atoi(value)
				}
			}
		}
	}
	r.Script = script
	return r
}

// controllerWords are what SlurmctldParameters may hold, and what becomes of those that have no effect here; "" for those that have.
var controllerWords = once.Value[map[string]string]{Make: func() map[string]string {
	return map[string]string{
		"rl_enable": "", "rl_bucket_size": "", "rl_refill_rate": "", "rl_refill_period": "", "rl_log_freq": "",
		"rl_table_size":             "every user is counted, however many there are",
		"allow_user_triggers":       "there are no triggers",
		"disable_triggers":          "there are no triggers",
		"cloud_dns":                 "power saving is not built",
		"cloud_reg_addrs":           "power saving is not built",
		"idle_on_node_suspend":      "power saving is not built",
		"max_powered_nodes":         "power saving is not built",
		"power_save_interval":       "power saving is not built",
		"power_save_min_interval":   "power saving is not built",
		"node_reg_mem_percent":      "a node has the memory that it says it has",
		"max_dbd_msg_action":        "the log keeps what accounting has not read yet",
		"no_quick_restart":          "a controller that starts waits until the one before it leads no more",
		"enable_configless":         "executors read the configuration from the log",
		"enable_job_state_cache":    "questions are answered from memory",
		"enable_async_reply":        "questions are answered from memory",
		"enable_stepmgr":            "the first node of an allocation makes its steps",
		"preempt_send_user_signal":  "no job is preempted yet",
		"reboot_from_controller":    "nodes are not rebooted yet",
		"user_resv_delete":          "reservations are deleted by administrators",
		"validate_nodeaddr_threads": "executors come to the bus",
		"conmgr_threads":            "messages travel on the bus",
		"conmgr_max_connections":    "messages travel on the bus",
		"conmgr_use_poll":           "messages travel on the bus",
		"conmgr_wait_write_delay":   "messages travel on the bus",
		"conmgr_read_timeout":       "messages travel on the bus",
		"conmgr_write_timeout":      "messages travel on the bus",
		"conmgr_connect_timeout":    "messages travel on the bus",
		"conmgr_quiesce_timeout":    "messages travel on the bus",
	}

}}

// word is one word of a key that holds several, and why it has no effect.
type word struct{ name, text string }

// controllerParameters reads SlurmctldParameters: what holds for requests, which words have no effect, and which are not known.
func controllerParameters(v string) (r Requests, idle []word, unknown []string, err error) {
	r = Requests{Bucket: 30, Refill: 2, Period: time.Second} // Slurm's, where the site switches it on
	var own []word
	for _, term := range list(v) {
		name, value, _ := strings.Cut(term, "=")
		name = strings.ToLower(name)
		text, known := controllerWords.Get()[name]
		switch {
		case !known:
			unknown = append(unknown, name)
		case text != "":
			idle = append(idle, word{name, text})
		case name == "rl_enable":
			r.All = true
		default:
			own = append(own, word{name, "it does nothing without rl_enable"})
			if err = r.set(name, value); err != nil {
				return OwnRequests(), nil, nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if !r.All {
		return OwnRequests(), append(idle, own...), unknown, nil
	}
	return r, idle, unknown, nil
}

// set takes one of the words that have a number.
func (r *Requests) set(name, value string) error {
	if name == "rl_log_freq" && value == "-1" {
		r.Log = -1
		return nil
	}
	least, most := uint64(1), uint64(1<<20)
	if name == "rl_log_freq" {
		least = 0
	}
	n, err := whole(value, least, most)
	switch name {
	case "rl_bucket_size":
		r.Bucket = uint32(n)
	case "rl_refill_rate":
		r.Refill = uint32(n)
	case "rl_refill_period":
		r.Period = time.Duration(n) * time.Second
	case "rl_log_freq":
		r.Log = time.Duration(n) * time.Second
	}
	return err
}

func (b *builder) controllerParameters(v string) error {
	_, idle, unknown, err := controllerParameters(v)
	b.idle("SlurmctldParameters", idle)
	b.unknown("SlurmctldParameters", unknown, slices.Sorted(maps.Keys(controllerWords.Get())))
	return err
}

// idle notes words of a key that have no effect.
func (b *builder) idle(key string, words []word) {
	for _, w := range words {
		b.Notes = append(b.Notes, Note{key, w.name, b.seen[key], Harmless, w.text})
	}
}

// unknown warns of words that are none of a key's.
func (b *builder) unknown(key string, words, known []string) {
	for _, w := range words {
		b.Warnings = append(b.Warnings, fmt.Sprintf("%s: %s knows no %s%s", b.seen[key], key, clip(w), nearOf(w, known)))
	}
}
