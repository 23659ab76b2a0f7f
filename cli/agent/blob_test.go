package agent

import (
	"context"
	"os"
	"testing"

	"stint/cli/wire"
	"stint/events"
)

// A script is handed to who submitted it and to administrators, to nobody else, and only by a reference that fits it.
func TestBlobs(t *testing.T) {
	c := start(t, Limits{})
	conn := c.dial()
	v, err := conn.Submit(&wire.Submit{Jobs: []*wire.Job{job("a", "#!/bin/sh\nsecret\n")}})
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	s := new(events.Submit)
	err = s.UnmarshalVT(c.batches[v[0].Seq].Intents[v[0].Index].Body)
	c.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	ref := s.Components[0].Script
	if text, err := conn.Blob(ref); err != nil || string(text) != "#!/bin/sh\nsecret\n" {
		t.Errorf("one's own script: %q, %v", text, err)
	}
	me := uint32(os.Getuid())
	ask := func(uid uint32, ref *events.BlobRef) *wire.Response {
		one := &call{agent: c.agent, ctx: context.Background(), peer: peer{uid: uid}}
		return one.blob(ref)
	}
	if r := ask(me+1, ref); r.Code != events.Code_ACCESS_DENIED || r.GetBlob() != nil {
		t.Errorf("another's script: %v", r)
	}
	for _, uid := range []uint32{0, testAdmin} {
		if r := ask(uid, ref); string(r.GetBlob()) != "#!/bin/sh\nsecret\n" {
			t.Errorf("root, or an administrator: %d: %v", uid, r)
		}
	}
	other := ref.CloneVT()
	other.Sha256 = make([]byte, 32)
	if r := ask(me, other); r.Error == "" || r.GetBlob() != nil {
		t.Errorf("a reference with another hash: %v", r)
	}
	for _, bad := range []*events.BlobRef{nil, {Subject: ref.Subject}, {Subject: ref.Subject, Length: 1 << 40, Sha256: ref.Sha256}, {Subject: "ev.sched", Length: 1, Sha256: ref.Sha256}} {
		if r := ask(me, bad); r.Error == "" || r.GetBlob() != nil {
			t.Errorf("%v: %v", bad, r)
		}
	}
	gone := ref.CloneVT()
	gone.Subject = events.SubjectBlob(me, "nothing")
	if r := ask(me, gone); r.Error != "the script is not kept any more" {
		t.Errorf("one that is not there: %v", r)
	}
	for subject, own := range map[string]bool{events.SubjectBlob(7, "abc"): true, events.SubjectBlob(77, "abc"): false, "blob.7.": false, "blob.7.*": false, "blob.7.>": false, "blob.7.a.b": false, "ev.sched": false} {
		if events.BlobOf(subject, 7) != own {
			t.Errorf("%s of user 7: %v", subject, !own)
		}
	}
}
