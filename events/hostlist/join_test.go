package hostlist

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Expressions joined by their ranges are what their names are, sorted and compressed one by one.
func TestJoinSorted(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	word := func() string {
		prefix := []string{"n", "c", "n0", "rack1n", "a-", "n-1-"}[rng.IntN(6)]
		number := func() uint64 {
			return []uint64{0, 1, 8, 9, 10, 11, 98, 99, 100, 999, 1000}[rng.IntN(11)] + rng.Uint64N(3)
		}
		switch rng.IntN(5) {
		case 0:
			return []string{"login", "n", "zz"}[rng.IntN(3)]
		case 1:
			return prefix + fmt.Sprint(number())
		case 2:
			return fmt.Sprintf("rack[1-2]n[%d]", number())
		}
		var spans []string
		for range 1 + rng.IntN(3) {
			lo := number()
			width := []string{"%d", "%03d", "%05d"}[rng.IntN(3)]
			spans = append(spans, fmt.Sprintf(width+"-"+width, lo, lo+rng.Uint64N(200)))
		}
		return prefix + "[" + strings.Join(spans, ",") + "]"
	}
	for range 3000 {
		var exprs []string
		for range rng.IntN(4) {
			words := make([]string, 1+rng.IntN(2))
			for i := range words {
				words[i] = word()
			}
			exprs = append(exprs, strings.Join(words, ","))
		}
		names, err := Expand(strings.Join(exprs, ","), MaxHosts)
		if err != nil {
			t.Fatal(exprs, err)
		}
		if got, want := JoinSorted(exprs), CompressSorted(names); got != want {
			t.Fatalf("seed %d: %q joined is %s, its names are %s", seed, exprs, got, want)
		}
	}
	if got := JoinSorted([]string{"c[1-70000]", "c[70001-100000]"}); got != "c[1-100000]" {
		t.Errorf("joined: %s", got)
	}
}
