package format

import (
	"strings"
	"testing"

	"stint/events"
	"stint/projections"
)

func TestLicenses(t *testing.T) {
	c := &events.Config{Licenses: []*events.LicenseDef{{Name: "matlab", Count: 4}, {Name: "ansys", Count: 2}, {Name: "one", Count: 1}}}
	held := []events.License{{Name: "matlab", Count: 1}, {Name: "matlab", Count: 2}, {Name: "ansys", Count: 1}, {Name: "other", Count: 3}}
	text, json := "", ""
	for _, l := range Licenses(c, held) {
		text += l.Record(true)
		json += JSON(l.JSON(), 0) + "\n"
	}
	if want := "LicenseName=ansys Total=2 Used=1 Free=1 Reserved=0 Remote=no\nLicenseName=matlab Total=4 Used=3 Free=1 Reserved=0 Remote=no\nLicenseName=one Total=1 Used=0 Free=1 Reserved=0 Remote=no\n"; text != want {
		t.Errorf("got\n%s", text)
	}
	if want := `{
  "LicenseName": "ansys",
  "Total": 2,
  "Used": 1,
  "Free": 1,
  "Remote": false,
  "Reserved": 0,
  "LastConsumed": 0,
  "LastDeficit": 0,
  "LastUpdate": 0
}
`; json[:min(len(json), len(want))] != want {
		t.Errorf("got\n%s", json)
	}
	if got := (License{Name: "x", Total: 2, Used: 3}).Record(false); got != "LicenseName=x\n    Total=2 Used=3 Free=0 Reserved=0 Remote=no\n" {
		t.Errorf("%q", got)
	}
}

// A job shows the licences that it holds, and those only while it has them: of a choice the one it was given.
func TestLicensesAlloc(t *testing.T) {
	row, notes := SqueueFields.Get().ByName("LicensesAlloc:20")
	if len(notes) > 0 {
		t.Fatal(notes)
	}
	for _, c := range []struct {
		state      events.JobState
		asked, got string
		want       string
	}{
		{events.JobState_PENDING, "matlab:2", "", "(null)"},
		{events.JobState_RUNNING, "matlab=2,ansys", "", "matlab:2,ansys:1"},
		{events.JobState_RUNNING, "matlab|ansys", "ansys:1", "ansys:1"},
		{events.JobState_COMPLETED, "matlab|ansys", "ansys:1", "(null)"},
		{events.JobState_RUNNING, "", "", "(null)"},
	} {
		j := Job{Job: &projections.Job{Id: 1, State: c.state, LicensesAlloc: c.got, Spec: &events.JobSpec{Licenses: c.asked}}}
		if line := strings.TrimSpace(row.Row(j)); line != c.want {
			t.Errorf("%v %q %q: %q, want %q", c.state, c.asked, c.got, line, c.want)
		}
	}
}
