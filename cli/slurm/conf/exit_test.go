package conf

import (
	"slices"
	"testing"
)

// RequeueExit and RequeueExitHold are codes and ranges of them.
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		value string
		codes []uint32
		fails bool
	}{
		{value: "1-3,18", codes: []uint32{1, 2, 3, 18}},
		{value: "18,2,1-3", codes: []uint32{1, 2, 3, 18}},
		{value: "0", codes: []uint32{0}},
		{value: "255", codes: []uint32{255}},
		{value: ""},
		{value: "256", fails: true},
		{value: "3-1", fails: true},
		{value: "1-", fails: true},
		{value: "-1", fails: true},
		{value: "1-300", fails: true},
		{value: "SIGKILL", fails: true},
	} {
		r, err := Load("slurm.conf", fromMap(map[string]string{"slurm.conf": "RequeueExit=" + c.value + "\nRequeueExitHold=" + c.value + "\nNodeName=n1\n"}))
		if c.fails != (err != nil) {
			t.Errorf("%s: %v", c.value, err)
		}
		if err == nil && (!slices.Equal(r.Config.RequeueExit, c.codes) || !slices.Equal(r.Config.RequeueExitHold, c.codes)) {
			t.Errorf("%s: got %v and %v", c.value, r.Config.RequeueExit, r.Config.RequeueExitHold)
		}
	}
}
