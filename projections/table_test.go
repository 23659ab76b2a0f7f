package projections

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// The table against a map, copies of it against copies of the map.
func TestTableIsAMap(t *testing.T) {
	type rec struct{ v int }
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	var tab table[rec]
	type entry struct {
		rec  *rec
		mark uint8
	}
	model := map[uint32]entry{}
	epoch := uint64(1)
	type copied struct {
		tab   table[rec]
		model map[uint32]entry
	}
	check := func(tab *table[rec], model map[uint32]entry) {
		t.Helper()
		var ids []uint32
		tab.each(func(id uint32, r *rec) bool {
			ids = append(ids, id)
			if model[id].rec != r || tab.get(id) != r {
				t.Fatalf("record %d is %v, not %v", id, r, model[id].rec)
			}
			return true
		})
		if !slices.Equal(ids, slices.Sorted(maps.Keys(model))) || tab.n != len(model) {
			t.Fatalf("ids %v of %d", ids, len(model))
		}
		for k := range marks {
			var got, want []*rec
			tab.eachMarked(1<<k, func(r *rec) bool { got = append(got, r); return true })
			for _, id := range ids {
				if model[id].mark>>k&1 == 1 {
					want = append(want, model[id].rec)
				}
			}
			if !slices.Equal(got, want) || tab.count[k] != len(want) {
				t.Fatalf("%d records with mark %d (count %d), not %d", len(got), k, tab.count[k], len(want))
			}
		}
	}
	var copies []copied
	for i := range 20000 {
		id := []uint32{r.Uint32N(700), 65530 + r.Uint32N(20), 1<<31 + r.Uint32N(3)}[r.IntN(3)]
		if r.IntN(3) == 0 {
			tab.set(epoch, id, nil, 0)
			delete(model, id)
		} else {
			e := entry{&rec{i}, uint8(r.IntN(8))}
			tab.set(epoch, id, e.rec, e.mark)
			model[id] = e
		}
		if r.IntN(1000) == 0 {
			copies = append(copies, copied{tab, maps.Clone(model)})
			epoch++
		}
	}
	check(&tab, model)
	for _, c := range copies {
		check(&c.tab, c.model)
	}
	for id := range model {
		tab.set(epoch, id, nil, 0)
	}
	for _, c := range tab.root {
		if c != nil {
			t.Fatal("an empty table holds chapters")
		}
	}
}

// The shallow copies copy every field of the schema.
func TestCopiesAreWhole(t *testing.T) {
	for _, one := range []any{&Job{}, &Node{}, &Array{}, &TermState{}, &RunNode{}, &DependencyState{}, &NodeGres{}} {
		v := reflect.ValueOf(one).Elem()
		for i := range v.NumField() {
			if f := v.Field(i); v.Type().Field(i).IsExported() {
				fill(f)
			}
		}
		var other any
		switch r := one.(type) {
		case *Job:
			other = r.copy()
		case *Node:
			other = r.copy()
		case *Array:
			other = r.copy()
		case *TermState:
			other = r.copy()
		case *RunNode:
			other = r.copy()
		case *DependencyState:
			other = r.copy()
		case *NodeGres:
			other = r.copy()
		}
		w := reflect.ValueOf(other).Elem()
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && (w.Field(i).IsZero() || !reflect.DeepEqual(v.Field(i).Interface(), w.Field(i).Interface())) {
				t.Errorf("a copy of %T leaves out %s", one, f.Name)
			}
		}
	}
}

func fill(f reflect.Value) {
	switch f.Kind() {
	case reflect.Bool:
		f.SetBool(true)
	case reflect.String:
		f.SetString("x")
	case reflect.Int32, reflect.Int64:
		f.SetInt(1)
	case reflect.Uint32, reflect.Uint64:
		f.SetUint(1)
	case reflect.Slice:
		f.Set(reflect.MakeSlice(f.Type(), 1, 1))
	case reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem()))
	}
}
