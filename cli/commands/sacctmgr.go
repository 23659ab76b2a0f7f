package commands

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"stint/cli/slurm"
	"stint/cli/slurm/format"
	"stint/events"
	"stint/projections"
)

// manager is one run of sacctmgr.
type manager struct {
	w   *World
	s   *slurm.Sacctmgr
	in  *bufio.Reader
	cfg *events.Config
	p   *projections.Policy
	raw *projections.PolicyState
	who string // the controller

	out  strings.Builder
	quit bool
}

func sacctmgr(args []string, w *World) int {
	s, err := slurm.ReadSacctmgr(w.input(args))
	switch {
	case err != nil:
		return w.complain("sacctmgr", err)
	case s.Print != "":
		io.WriteString(w.Stdout, s.Print)
		return 0
	}
	m := &manager{w: w, s: s, in: bufio.NewReader(w.Stdin)}
	if len(s.Words) > 0 {
		return m.run(s.Words)
	}
	code := 0
	for !m.quit {
		fmt.Fprint(w.Stdout, "sacctmgr: ")
		line, err := m.in.ReadString('\n')
		if err != nil && line == "" {
			fmt.Fprintln(w.Stdout)
			return code
		}
		line = strings.TrimSuffix(line, "\n")
		fmt.Fprintln(w.Stdout, line) // what is typed is seen, from a file too
		words := slurm.SplitLine(line)
		if len(words) == 0 {
			continue
		}
		again, err := slurm.ReadSacctmgr(w.input(words))
		if err != nil {
			code = w.complain("sacctmgr", err)
			continue
		}
		code = max(code, m.run(again.Words)) // one that failed is told of at the end
	}
	return code
}

// managerVerbs are the commands, with how many letters are enough.
var managerVerbs = []struct {
	word    string
	least   int
	run     func(*manager, []string) int
	changes bool
}{
	{"add", 3, (*manager).add, true}, {"create", 3, (*manager).add, true},
	{"archive", 3, (*manager).archive, false},
	{"associations", 3, nil, false},
	{"clear", 3, (*manager).clear, true},
	{"delete", 3, (*manager).delete, true}, {"remove", 3, (*manager).delete, true},
	{"dump", 3, (*manager).dump, false},
	{"exit", 4, (*manager).leave, false}, {"quit", 4, (*manager).leave, false},
	{"help", 3, (*manager).help, false},
	{"list", 3, (*manager).show, false}, {"show", 3, (*manager).show, false},
	{"load", 3, (*manager).load, true},
	{"modify", 3, (*manager).modify, true}, {"update", 3, (*manager).modify, true},
	{"ping", 3, (*manager).ping, false},
	{"reconfigure", 3, (*manager).reconfigure, false},
	{"shutdown", 3, (*manager).shutdown, false},
	{"verbose", 4, (*manager).loud, false},
	{"version", 4, (*manager).version, false},
	{"readonly", 4, (*manager).readonly, false},
	{"quiet", 4, (*manager).hush, false},
}

func (m *manager) run(words []string) int {
	for _, v := range managerVerbs {
		if slurm.Keyed(words[0], v.word, v.least) && v.run != nil {
			if m.s.ReadOnly && v.changes {
				return m.fail("Can't run this command in readonly mode: leave --readonly out to %s anything", v.word)
			}
			code := v.run(m, words[1:])
			m.flush()
			return code
		}
	}
	var known []string
	for _, v := range managerVerbs {
		known = append(known, v.word)
	}
	near := ""
	if n, ok := slurm.Nearest(strings.ToLower(words[0]), known); ok {
		near = "; is " + n + " meant?"
	}
	return m.fail("invalid keyword: %s%s", words[0], near)
}

func (m *manager) flush() {
	io.WriteString(m.w.Stdout, m.out.String())
	m.out.Reset()
}

func (m *manager) fail(text string, args ...any) int {
	m.flush()
	return m.w.complain("sacctmgr", fmt.Errorf(text, args...))
}

func (m *manager) printf(text string, args ...any) {
	fmt.Fprintf(&m.out, text, args...)
}

func (m *manager) leave([]string) int    { m.quit = true; return 0 }
func (m *manager) loud([]string) int     { m.s.Verbose++; return 0 }
func (m *manager) readonly([]string) int { m.s.ReadOnly = true; return 0 }
func (m *manager) hush([]string) int     { m.s.Quiet = true; return 0 }

func (m *manager) help([]string) int {
	m.out.WriteString(slurm.SacctmgrTable.Help(m.w.Release()))
	return 0
}

func (m *manager) version([]string) int {
	m.out.WriteString(m.w.Release().Version() + "\n")
	return 0
}

// ping says whether the policy can be had; 22.05 knows no such command.
func (m *manager) ping([]string) int {
	if m.w.Release() < 2302 {
		return m.fail("invalid keyword: ping")
	}
	err := m.look(false)
	state := "UP"
	if err != nil {
		state = "DOWN"
	}
	fmt.Fprintf(&m.out, "slurmdbd(primary) at %s is %s\n", m.w.controllerHost(nil), state)
	if err != nil {
		return 1
	}
	return 0
}

func (m *manager) reconfigure([]string) int { return 0 } // there is no slurmdbd with a file of its own to read again

func (m *manager) shutdown([]string) int {
	return m.fail("there is no slurmdbd to shut down; `stint down` ends the cluster")
}

func (m *manager) clear(words []string) int {
	if len(words) == 0 || !slurm.Keyed(words[0], "stats", 3) {
		return m.fail("what can be cleared is stats")
	}
	return 0
}

func (m *manager) archive(words []string) int {
	m.fail("the log is the archive: `stint events` reads it; there is nothing to %s", strings.Join(append([]string{"archive"}, words...), " "))
	return 0
}

// look asks for the policy.
func (m *manager) look(deleted bool) error {
	a, err := m.w.ask("sacctmgr", &projections.Ask{What: &projections.Ask_Policy{Policy: &projections.AskPolicy{Deleted: deleted}}})
	if err != nil {
		return errors.New(why(err))
	}
	m.raw, m.cfg, m.who = a.GetPolicy().GetPolicy(), a.GetPolicy().GetConfig(), a.GetPolicy().GetController()
	if m.p, err = projections.LoadPolicy(m.raw); err != nil {
		return fmt.Errorf("reading the policy: %w", err)
	}
	return nil
}

// level is what the caller may do, for what is said before the controller judges it.
func (m *manager) level() events.AdminLevel {
	if m.w.Uid == 0 || slices.Contains(m.cfg.GetAdminUids(), m.w.Uid) || slices.Contains(m.cfg.GetAdmins(), m.w.user()) {
		return events.AdminLevel_ADMIN_ADMINISTRATOR
	}
	return m.p.Level(m.w.user())
}

// coordinates says whether the caller coordinates any account.
func (m *manager) coordinates() bool {
	any := false
	m.p.EachAccount(func(a *projections.Account) bool {
		any = slices.Contains(a.Coordinators, m.w.user())
		return !any
	})
	return any
}

// commit asks whether acts are to be done, and has them done. Its exit code is 0 when they are, or when the answer was no.
func (m *manager) commit(acts []*events.PolicyAct) int {
	m.flush()
	if !m.s.Immediate && !m.agreed() {
		return 0
	}
	if err := m.send(acts); err != nil {
		return m.fail("%s", err)
	}
	return 0
}

// agreed asks. Whoever says anything but yes, or nothing in time, does not.
func (m *manager) agreed() bool {
	fmt.Fprint(m.w.Stdout, "Would you like to commit changes? (You have 30 seconds to decide)\n(N/y): ")
	said := make(chan string, 1)
	go func() {
		line, _ := m.in.ReadString('\n')
		said <- line
	}()
	answer := ""
	select {
	case answer = <-said:
	case <-time.After(decideFor):
		m.quit = true // what is typed later is not for another command
	}
	fmt.Fprintln(m.w.Stdout)
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return true
	}
	fmt.Fprintln(m.w.Stdout, " Changes Discarded")
	return false
}

// decideFor is how long sacctmgr waits for an answer.
const decideFor = 30 * time.Second

// policyBytes is how many bytes of acts go into one request.
const policyBytes = 150 << 10

// send has acts done, as many in one request as fit. What one request holds happens whole or not at all.
func (m *manager) send(acts []*events.PolicyAct) error {
	for len(acts) > 0 {
		n, size := 0, 0
		for n < len(acts) && n < 1000 && (n == 0 || size+acts[n].SizeVT() < policyBytes) {
			size += acts[n].SizeVT() + 8
			n++
		}
		v, err := m.w.control("sacctmgr", events.Verb_ADMINISTER, &events.Policy{Acts: acts[:n]})
		if err != nil {
			return errors.New(why(err))
		}
		switch v.Code {
		case events.Code_OK:
		case events.Code_JOBS_ACTIVE:
			m.printf(" Error with request: Job(s) active, cancel job(s) before remove\n")
			for _, line := range strings.Split(v.Text, "\n") {
				m.printf("  %s\n", line)
			}
			m.flush()
			return errors.New("jobs use what would be removed; cancel them, or wait for their end")
		default:
			return errors.New(strings.ReplaceAll(refused(v.Code, v.Text), "\n", ": "))
		}
		acts = acts[n:]
	}
	return nil
}

// managerEntities are what can be named after a command, with how many letters are enough, and what each command does with it; nil: that
// command has nothing to do with it.
var managerEntities = []struct {
	word   string
	least  int
	name   string
	add    func(*manager, *order) int
	modify func(*manager, *query, *settings) int
	remove func(*manager, *query) int
	show   func(*manager, *query) int
	json   bool // show knows --json
}{
	{"accounts", 1, "account", (*manager).addAccounts, (*manager).modifyAccounts, (*manager).deleteAccounts, (*manager).showAccounts, true},
	{"associations", 2, "association", nil, nil, nil, (*manager).showAssociations, true},
	{"clusters", 2, "cluster", (*manager).addClusters, (*manager).modifyClusters, (*manager).deleteClusters, (*manager).showClusters, true},
	{"configuration", 2, "configuration", nil, nil, nil, (*manager).showConfiguration, false},
	{"coordinators", 2, "coordinator", (*manager).addCoordinators, nil, (*manager).deleteCoordinators, nil, false},
	{"events", 1, "event", nil, nil, nil, (*manager).showEvents, false},
	{"federations", 1, "federation", nil, nil, nil, nothingOf(format.ManagerFederations), false},
	{"problems", 1, "problem", nil, nil, nil, (*manager).showProblems, false},
	{"qos", 1, "qos", (*manager).addQos, (*manager).modifyQos, (*manager).deleteQos, (*manager).showQos, true},
	{"resources", 4, "resource", nil, nil, nil, nothingOf(format.ManagerResources), false},
	{"reservations", 4, "reservation", nil, nil, nil, nothingOf(format.ManagerReservations), false},
	{"runawayjobs", 2, "runaway", nil, nil, nil, (*manager).showRunaway, false},
	{"orphanjobs", 2, "runaway", nil, nil, nil, (*manager).showRunaway, false},
	{"stats", 1, "stats", nil, nil, nil, (*manager).showStats, false},
	{"transactions", 1, "transaction", nil, nil, nil, (*manager).showTransactions, false},
	{"txn", 1, "transaction", nil, nil, nil, (*manager).showTransactions, false},
	{"tres", 2, "tres", nil, nil, nil, (*manager).showTres, true},
	{"users", 1, "user", (*manager).addUsers, (*manager).modifyUsers, (*manager).deleteUsers, (*manager).showUsers, true},
	{"wckeys", 1, "wckey", nil, nil, (*manager).deleteWckeys, (*manager).showWckeys, true},
}

// managerEntity finds what the first word names: an index into managerEntities, -1 for nothing that is known.
func managerEntity(words []string) int {
	if len(words) == 0 {
		return -1
	}
	for i, e := range managerEntities {
		if strings.EqualFold(strings.TrimSuffix(e.word, "s"), words[0]) {
			return i
		}
	}
	for i, e := range managerEntities {
		if slurm.Keyed(words[0], e.word, e.least) {
			return i
		}
	}
	return -1
}

// wants says which entities a command takes.
func (m *manager) wants(command string, takes func(int) bool) int {
	var names []string
	for i, e := range managerEntities {
		if takes(i) && !slices.Contains(names, e.name) {
			names = append(names, e.name)
		}
	}
	return m.fail("No valid entity in %s command: it takes one of %s", command, strings.Join(names, ", "))
}

// print prints a table.
func (m *manager) print(cols []format.ManagerColumn, n int, row func(int) format.ManagerRow) {
	format.Manager(&m.out, format.ManagerStyle{NoHeader: m.s.NoHeader, Parsable: m.s.Parsable}, cols, n, row)
}
