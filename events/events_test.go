package events

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestTokens(t *testing.T) {
	for _, test := range []struct{ name, token string }{
		{"alice", "alice"}, {"", "%"}, {"a.b", "a%2Eb"}, {"two words", "two%20words"}, {"*", "%2A"}, {">", "%3E"}, {"@host", "%40host"},
		{"100%", "100%25"}, {"node-1_x", "node-1_x"}, {"ünï", "%C3%BCn%C3%AF"}, {"a\x00\n", "a%00%0A"}, {"$JS", "%24JS"},
	} {
		got := Token(test.name)
		if got != test.token {
			t.Errorf("%q is written %q, not %q", test.name, got, test.token)
		}
		if back, err := Untoken(got); err != nil || back != test.name {
			t.Errorf("%q is read as %q (%v), not %q", got, back, err, test.name)
		}
	}
	for _, token := range []string{"", "a.b", "a b", "%4", "a%", "%zz", "%61", "%2e", "a%%", "*", ">", "%C3 "} {
		if name, err := Untoken(token); err == nil {
			t.Errorf("%q is read as %q, and is not how anything is written", token, name)
		}
	}
}

func FuzzToken(f *testing.F) {
	f.Add("alice")
	f.Add("a.b *>%@")
	f.Fuzz(func(t *testing.T, s string) {
		token := Token(s)
		if strings.ContainsAny(token, ".*> \t\r\n@") || token == "" {
			t.Fatalf("%q is written %q", s, token)
		}
		if back, err := Untoken(token); err != nil || back != s {
			t.Fatalf("%q comes back as %q (%v)", s, back, err)
		}
		if name, err := Untoken(s); err == nil && Token(name) != s {
			t.Fatalf("%q is read as %q, which is written %q", s, name, Token(name))
		}
	})
}

// No user can speak on a host's subject, no node on another's.
func TestSubjectsKeepAuthorsApart(t *testing.T) {
	for _, test := range []struct {
		subject string
		author  AuthorKind
		name    string
	}{
		{SubjectIntentHost("login.site"), AuthorHost, "login.site"},
		{SubjectIntentUser("alice"), AuthorUser, "alice"},
		{SubjectIntentUser("@login"), AuthorUser, "@login"},
		{SubjectNode("n1"), AuthorNode, "n1"},
		{SubjectNode("*"), AuthorNode, "*"},
		{SubjectSched, AuthorLeader, ""},
		{SubjectShare, AuthorLedger, ""},
		{"ev.sched.x", AuthorNone, ""},
		{"ev.node.a.b", AuthorNone, ""},
		{"ev.intent.@a b", AuthorNone, ""},
		{"job.RUNNING", AuthorNone, ""},
		{"", AuthorNone, ""},
	} {
		e := Decode(1, 2, test.subject, nil)
		if e.Author != test.author || e.Name != test.name || (e.Void == VoidSubject) != (test.author == AuthorNone) {
			t.Errorf("%q is by %v %q (%s), not %v %q", test.subject, e.Author, e.Name, e.Void, test.author, test.name)
		}
	}
	if got := SubjectJob("RUNNING", "a.b", "x y", 7); got != "job.RUNNING.a%2Eb.x%20y.7" {
		t.Error(got)
	}
	if got := SubjectBlob(7, "0a"); got != "blob.7.0a" {
		t.Error(got)
	}
	if got := SubjectAskNode("n.1") + SubjectRun("n1") + SubjectBeat("n1") + SubjectUsage("n1") + SubjectAsk("jobs"); got != "ask.node.n%2E1run.n1beat.n1usage.n1ask.jobs" {
		t.Error(got)
	}
}

func FuzzDecode(f *testing.F) {
	m := &SchedMessage{Kind: &SchedMessage_Cycle{Cycle: &Cycle{Term: []byte("t"), Facts: []*Fact{{Kind: &Fact_Placed{Placed: &Placed{Job: 1}}}}}}}
	data, _ := m.MarshalVT()
	f.Add(SubjectSched, data)
	f.Add(SubjectNode("n1"), []byte{1, 2, 3})
	f.Add(SubjectIntentUser("u"), []byte{10, 0})
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		e := Decode(1, 1, subject, data)
		set := 0
		for _, is := range []bool{e.Intents != nil, e.Sched != nil, e.Node != nil, e.Share != nil, e.Void != ""} {
			if is {
				set++
			}
		}
		if set != 1 {
			t.Fatalf("%q decodes to %d things: %+v", subject, set, e)
		}
	})
}

// Bit words against a map of numbers.
func TestWords(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	random := func() (Words, map[uint32]bool) {
		var w Words
		m := map[uint32]bool{}
		for range r.IntN(40) {
			n := r.Uint32N(200)
			if r.IntN(4) == 0 {
				w.Clear(n)
				delete(m, n)
			} else {
				w.Set(n)
				m[n] = true
			}
		}
		return w, m
	}
	same := func(what string, w Words, has func(uint32) bool) {
		t.Helper()
		count := 0
		for n := range uint32(260) {
			if w.Has(n) != has(n) {
				t.Fatalf("%s: %s has %d: %v", what, w, n, w.Has(n))
			}
			if has(n) {
				count++
			}
		}
		if w.Count() != count || len(w.List()) != count || w.Empty() != (count == 0) {
			t.Fatalf("%s: %s counts %d", what, w, w.Count())
		}
	}
	for range 2000 {
		a, ma := random()
		b, mb := random()
		was := a.Clone()
		same("set", a, func(n uint32) bool { return ma[n] })
		same("and", a.And(b), func(n uint32) bool { return ma[n] && mb[n] })
		same("or", a.Or(b), func(n uint32) bool { return ma[n] || mb[n] })
		same("and not", a.AndNot(b), func(n uint32) bool { return ma[n] && !mb[n] })
		if a.Intersects(b) != !a.And(b).Empty() || a.Within(b) != a.AndNot(b).Empty() || !a.Equal(append(a.Clone(), 0, 0)) || a.Equal(b) != (a.Within(b) && b.Within(a)) {
			t.Fatalf("%s and %s", a, b)
		}
		if !a.Equal(was) {
			t.Fatalf("%s was %s", a, was)
		}
		list := a.List()
		first, ok := a.First()
		last, _ := a.Last()
		if ok != (len(list) > 0) || ok && (first != list[0] || last != list[len(list)-1]) {
			t.Fatalf("%s: first %d, last %d", a, first, last)
		}
		var ranged Words
		a.Range(func(from, to uint32) bool { ranged.AddRange(from, to); return true })
		if !ranged.Equal(a) {
			t.Fatalf("%s in ranges is %s", a, ranged)
		}
	}
	if got := WordsOf(0, 1, 2, 3, 7, 63, 64).String(); got != "0-3,7,63-64" {
		t.Error(got)
	}
	stopped := 0
	WordsOf(1, 3, 5).Range(func(from, to uint32) bool { stopped++; return false })
	WordsOf(1, 3, 5).Each(func(n uint32) bool { stopped++; return n < 3 })
	if stopped != 3 {
		t.Errorf("stopped after %d", stopped)
	}
}

func TestAllocation(t *testing.T) {
	a := &Allocation{Shares: []*NodeShare{
		{Nodes: []string{"n1", "n2"}, Cpus: WordsOf(0, 1, 2), MemoryMib: 100, Tasks: 2, Gres: []*GresShare{{Name: "gpu", Type: "a", Ids: WordsOf(0, 3)}}},
		{Nodes: []string{"n5"}, Cpus: WordsOf(7), MemoryMib: 7, Tasks: 1, Gres: []*GresShare{{Name: "gpu", Type: "a", Ids: WordsOf(1)}, {Name: "fpga", Ids: WordsOf(0)}}},
	}}
	if a.NodeCount() != 3 || a.CPUs() != 7 || a.MemoryMiB() != 207 || a.Tasks() != 5 || a.FirstNode() != "n1" || strings.Join(a.NodeNames(), " ") != "n1 n2 n5" {
		t.Errorf("%v", a)
	}
	gres := a.Gres()
	if len(gres) != 2 || gres[0] != (GresTotal{"gpu", "a", 5}) || gres[1] != (GresTotal{"fpga", "", 1}) {
		t.Errorf("gres %v", gres)
	}
	if share, i := a.ForNode("n5"); i != 2 || share != a.Shares[1] {
		t.Errorf("n5 is %d", i)
	}
	if share, i := a.ForNode("n3"); i != -1 || share != nil {
		t.Errorf("n3 is %d", i)
	}
	var none *Allocation
	if none.NodeCount()+none.CPUs() != 0 || none.FirstNode() != "" || len(none.NodeNames()) != 0 {
		t.Error("no allocation has something")
	}
}

// Every state and reason of the schema has its word, no two the same, and states are read back.
func TestWordsOfStatesAndReasons(t *testing.T) {
	seen := map[string]bool{}
	for n := range JobState_name {
		s := JobState(n)
		for _, text := range []string{s.Word(), s.Compact(), strings.ToLower(s.Word())} {
			if got, ok := ParseJobState(text); !ok || got != s {
				t.Errorf("%q is read as %v", text, got)
			}
		}
		if seen[s.Word()] {
			t.Errorf("%s is the word of two states", s.Word())
		}
		seen[s.Word()] = true
		if s.Final() == (s == JobState_PENDING || s == JobState_RUNNING || s == JobState_SUSPENDED) {
			t.Errorf("%s is final: %v", s.Word(), s.Final())
		}
	}
	for n := range Reason_name {
		word := Reason(n).Word()
		if word == "InvalidReason" || seen[word] {
			t.Errorf("reason %v has the word %s", Reason(n), word)
		}
		seen[word] = true
	}
	if _, ok := ParseJobState("NEVER"); ok || JobState(99).Word() != "INVALID" || JobState(-1).Compact() != "?" || JobState(99).Final() || Reason(12345).Word() != "InvalidReason" {
		t.Error("what is no state has a word")
	}
	if StepName(StepBatch) != "batch" || StepName(StepExtern) != "extern" || StepName(0) != "0" || StepName(12) != "12" || !IsMainStep(StepInteractive) || IsMainStep(StepExtern) {
		t.Error("steps")
	}
}
