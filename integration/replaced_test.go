package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReplacedLog: where the bus's folder was replaced by an empty one, no daemon goes on with a new log, which would give out the ids of jobs
// again; `stint up` and `stint doctor` say what is wrong, and when the folder is back nothing was lost. Its daemons write their logs as JSON, which
// the doctor reads too.
func TestReplacedLog(t *testing.T) {
	t.Setenv("STINT_LOG_FORMAT", "json")
	c := start(t, "--split", "--nodes", "n1", "--cpus", "2", "--memory", "1000")
	id := c.submit("-H", "-o", "/dev/null", "--wrap", "true")
	for _, f := range []string{"controller.log", "executor-n1.log"} {
		text, err := os.ReadFile(filepath.Join(c.dir, "log", f))
		if err != nil || len(text) == 0 {
			t.Errorf("%s: %d bytes, %v", f, len(text), err)
		}
		for line := range strings.Lines(string(text)) {
			var l struct{ Time, Level, Msg string }
			if err := json.Unmarshal([]byte(line), &l); err != nil || l.Time == "" || l.Level == "" || l.Msg == "" {
				t.Errorf("%s has a line that is no JSON of a log: %q: %v", f, line, err)
			}
		}
	}
	c.do("stint", "down", "--kill")
	folder := filepath.Join(c.dir, "bus")
	if err := os.Rename(folder, folder+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	r := c.try("stint", "up", "--detach", "--split", "--wait", "5s")
	if r.code == 0 {
		t.Error("it went on with an empty log")
	}
	said := r.err + c.try("stint", "doctor", "--quiet").out
	if !strings.Contains(said, "fault    folders        "+folder+" has no log in it, and the cluster's was made ") || !strings.Contains(said, "it was moved, emptied or replaced. Put it back and start again") {
		t.Errorf("nobody says that the log was replaced:\n%s", said)
	}
	c.try("stint", "down", "--kill")
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(folder+".away", folder); err != nil {
		t.Fatal(err)
	}
	c.up("--split")
	if got := c.try("squeue", "-h", "-o", "%i %T").out; got != id+" PENDING\n" {
		t.Errorf("with its log back the cluster has %q", got)
	}
}
