package pmi

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// Pair is something that a task has put under a key.
type Pair struct{ Key, Value string }

var errPairs = errors.New("the pairs of a fence are cut short")

// Encode appends pairs to b: each key and each value behind its length, as a varint. Encoded lists may be joined by appending one
// to the other.
func Encode(b []byte, pairs []Pair) []byte {
	for _, p := range pairs {
		for _, s := range [2]string{p.Key, p.Value} {
			b = binary.AppendUvarint(b, uint64(len(s)))
			b = append(b, s...)
		}
	}
	return b
}

// Decode reads what Encode has written. What is cut short, or never was that, is an error.
func Decode(b []byte) ([]Pair, error) {
	var out []Pair
	for len(b) > 0 {
		var s [2]string
		for i := range s {
			n, w := binary.Uvarint(b)
			if w <= 0 || n > uint64(len(b)-w) {
				return nil, errPairs
			}
			s[i], b = string(b[w:w+int(n)]), b[w+int(n):]
		}
		out = append(out, Pair{s[0], s[1]})
	}
	return out, nil
}

// pairsOf lists a map in the order of its keys.
func pairsOf(m map[string]string) []Pair {
	out := make([]Pair, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, Pair{k, m[k]})
	}
	return out
}
