package supervisor

import (
	"context"
	"os"
	"syscall"
	"testing"
)

// exhaust launches steps that stay until one is refused, and checks that the supervisor tells why, goes on, and launches
// again once the others have ended.
func exhaust(t *testing.T, r *rig, most int, fault Failure) {
	t.Helper()
	ctx := context.Background()
	var there []*Key
	var refused *Launched
	for range most {
		l := r.script("sleep 1000")
		a, err := r.client.Launch(ctx, l)
		if err != nil {
			t.Fatalf("after %d launches: %v", len(there), err)
		}
		if a.Failure != Failure_NO_FAILURE {
			refused = a
			break
		}
		there = append(there, l.Key)
	}
	if refused == nil {
		t.Fatalf("%d launches went well", most)
	}
	t.Logf("after %d launches: %v: %s", len(there), refused.Failure, refused.Detail)
	if refused.Detail == "" || refused.Failure != fault {
		t.Errorf("%v %q, want %v with a reason", refused.Failure, refused.Detail, fault)
	}
	for _, k := range there {
		if _, err := r.client.Terminate(ctx, &Terminate{Job: k.Job, Cause: Cause_CANCELLED}); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range there {
		if x := r.exit(k); x.Signal != int32(syscall.SIGKILL) || x.Cause != Cause_CANCELLED {
			t.Errorf("%v", x)
		}
	}
	if x, _ := r.run(r.script("exit 3")); x.Code != 3 {
		t.Errorf("afterwards: %v", x)
	}
}

// Two files a step: its process and where its user is told things.
func TestOutOfFiles(t *testing.T) {
	exhaust(t, newRig(t, func(r *rig) { r.conf.Files = 60 }), 60, Failure_FORK)
}

// Out of processes: of an ordinary user, whom alone the limit binds.
func TestOutOfProcesses(t *testing.T) {
	needRoot(t)
	r := newRig(t, func(r *rig) {
		own := uint32(1<<20 + os.Getpid()) // nobody else's, so that only this test's processes count
		r.as = &syscall.Credential{Uid: own, Gid: own}
		r.conf.Processes = 160
	})
	exhaust(t, r, 160, Failure_OWN_LIMIT)
}
