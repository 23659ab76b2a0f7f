package conf

import "testing"

// Keys about steps take what Slurm takes, and say of anything else what they take.
func TestStepKeys(t *testing.T) {
	for line, ok := range map[string]bool{
		"WaitTime=0": true, "WaitTime=30": true, "WaitTime=soon": false, "KillOnBadExit=1": true, "KillOnBadExit=2": false, "MaxTasksPerNode=0": false,
		"MaxTasksPerNode=512": true, "MaxStepCount=40000": true, "MaxStepCount=-1": false, "SrunPortRange=60001-63000": true, "SrunPortRange=60001": false,
		"SrunPortRange=2-1": false, "SrunPortRange=0-9": false, "SrunPortRange=1-70000": false, "SrunProlog=/etc/pro.sh": true, "SrunProlog=pro.sh": false, "SrunEpilog=none": true,
		"TaskProlog=/etc/pro.sh": true, "MpiDefault=PMIx_v4": true, "MpiDefault=pmi2": true, "MpiDefault=none": true, "MpiDefault=list": false, "MpiDefault=lam": false, "TaskEpilog=epi.sh": false,
	} {
		_, err := Load("slurm.conf", fromMap(map[string]string{"slurm.conf": line + "\nNodeName=n1\n"}))
		if ok != (err == nil) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
