package tres

import "testing"

func TestBillingWeights(t *testing.T) {
	job := List{{"cpu", 3}, {"mem", 1500}, {"node", 1}, {"gres/gpu", 2}, {"gres/gpu:a100", 2}, {"license/matlab", 1}}
	for _, c := range []struct {
		weights string
		most    bool
		want    int64
	}{
		{"", false, 3},
		{"", true, 3},
		{"CPU=2.0,Mem=0.25G,gres/gpu=4", false, 14}, // 6 + 0.37 + 8
		{"CPU=2.0,Mem=0.25G,gres/gpu=4", true, 8},
		{"CPU=2.0,Mem=0.25G,gres/gpu=4,license/matlab=5", true, 13},
		{"mem=0.01", false, 15},
		{"mem=1K", false, 1536000},
		{"Mem=10M", false, 15000},
		{"GRES/gpu:a100=1.5,node=1", false, 4},
		{"CPU=0", false, 0},
		{"cpu=1,", false, 3},
	} {
		w, err := ParseWeights(c.weights)
		if got := w.Billing(job, c.most); err != nil || got != c.want {
			t.Errorf("%q, most %v: %d, %v, want %d", c.weights, c.most, got, err, c.want)
		}
	}
	for _, bad := range []string{"fish=1", "CPU=fish", "CPU", "CPU=", "CPU=-1", "CPU=G", "gres/=1", "CPU=Inf", "CPU=NaN", "=1"} {
		if w, err := ParseWeights(bad); err == nil {
			t.Errorf("%q is taken as %v", bad, w)
		}
	}
}
