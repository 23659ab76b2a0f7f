package tres

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Weights are what a unit of each resource is billed at (slurm.conf(5), TRESBillingWeights): a piece, or a MiB of memory.
type Weights map[string]float64

// ParseWeights reads TRES=weight terms, `CPU=1.0,Mem=0.25G,GRES/gpu=2`. A letter behind the weight is the unit that it is for.
// The empty text is no weights: nil.
func ParseWeights(text string) (Weights, error) {
	var w Weights
	for term := range strings.SplitSeq(text, ",") {
		if term == "" {
			continue
		}
		key, value, _ := strings.Cut(term, "=")
		name, known := Canonical(key)
		if !known {
			return nil, fmt.Errorf("%.40q is no resource: cpu, mem, node, gres/NAME, license/NAME and so on are", key)
		}
		per, digits := 1.0, value
		if n := len(value); n > 0 {
			if i := strings.IndexByte("KMGTP", value[n-1]&^0x20); i >= 0 {
				per, digits = math.Pow(1024, float64(i+1)), value[:n-1]
				if name == "mem" || name == "vmem" {
					per /= 1 << 20
				}
			}
		}
		f, err := strconv.ParseFloat(digits, 64)
		if err != nil || f < 0 || math.IsInf(f, 0) || math.IsNaN(f) {
			return nil, fmt.Errorf("%.40q is no weight for %s: a number such as 1.0, or for a unit 0.25G, is", value, name)
		}
		if w == nil {
			w = Weights{}
		}
		w[name] = f / per
	}
	return w, nil
}

// Billing is what amounts come to. With most (PriorityFlags=MAX_TRES) of the resources of nodes only the dearest counts, beside
// all that are the cluster's. Without weights each CPU is one.
func (w Weights) Billing(l List, most bool) int64 {
	if w == nil {
		return l.Get("cpu")
	}
	var sum, top float64
	for _, it := range l {
		b := w[it.Name] * float64(it.Count)
		if most && !strings.HasPrefix(it.Name, "license/") && !strings.HasPrefix(it.Name, "bb/") {
			top = max(top, b)
		} else {
			sum += b
		}
	}
	return int64(min(sum+top, 1<<62))
}
