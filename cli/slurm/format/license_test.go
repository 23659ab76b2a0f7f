package format

import (
	"testing"

	"stint/events"
)

func TestLicenses(t *testing.T) {
	c := &events.Config{Settings: []*events.Setting{{Key: "Licenses", Value: "matlab:4,ansys:2,one"}}}
	text := ""
	for _, l := range Licenses(c, []string{"matlab:1", "matlab:2,ansys", "", "other:3", "ansys:x"}) {
		text += l.Record(true)
	}
	if want := "LicenseName=ansys Total=2 Used=1 Free=1 Reserved=0 Remote=no\nLicenseName=matlab Total=4 Used=3 Free=1 Reserved=0 Remote=no\nLicenseName=one Total=1 Used=0 Free=1 Reserved=0 Remote=no\n"; text != want {
		t.Errorf("got\n%s", text)
	}
	if got := (License{Name: "x", Total: 2, Used: 3}).Record(false); got != "LicenseName=x\n    Total=2 Used=3 Free=0 Reserved=0 Remote=no\n" {
		t.Errorf("%q", got)
	}
}
