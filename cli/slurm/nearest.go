package slurm

// Nearest returns the candidate closest to word, if one is close enough to be what was meant: at most two slips away, and one in
// a word of up to four letters, of which two would leave too little.
func Nearest(word string, candidates []string) (string, bool) {
	if len(word) > 40 {
		return "", false
	}
	best, at := 3, ""
	if len(word) < 5 {
		best = 2
	}
	for _, c := range candidates {
		if d := distance(word, c); d < best && d < len(word) {
			best, at = d, c
		}
	}
	return at, at != ""
}

// distance counts the letters to insert, remove, replace or swap with a neighbour to turn a into b.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// mean is the end of a sentence that offers the nearest candidate, empty if none is near.
func mean(word string, candidates []string) string {
	if c, ok := Nearest(word, candidates); ok {
		return "; did you mean " + c + "?"
	}
	return ""
}
