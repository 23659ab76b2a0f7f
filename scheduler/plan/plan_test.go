package plan

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"stint/events"
	"stint/events/schema"
	"stint/scheduler/sim"
)

var update = flag.Bool("update", false, "write what the scripts print into them")

// Each file has, from top to bottom: lines of a simulated cluster's script, "== then", the lines of another configuration,
// "== is", and what the report says.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			state, rest, ok1 := strings.Cut(string(data), "== then\n")
			conf, want, ok2 := strings.Cut(rest, "== is\n")
			if !ok1 || !ok2 {
				t.Fatalf("%s lacks a part", file)
			}
			now, then := sim.NewScript(sim.Options{}), sim.NewScript(sim.Options{})
			if out := now.Run(state); out != "" {
				t.Fatalf("the cluster says %s", out)
			}
			if out := then.Run(conf); out != "" {
				t.Fatalf("the other configuration says %s", out)
			}
			held := now.World.Fold.Hash()
			next := then.World.Fold.Config()
			seq := now.World.Fold.Seq()
			r, err := Compare(now.World.Fold, next, now.World.Now())
			if err != nil {
				t.Fatal(err)
			}
			if r.Seq != seq || held == now.World.Fold.Hash() {
				t.Errorf("compared at %d, and the intent was folded into the copy: %v", r.Seq, held != now.World.Fold.Hash())
			}
			var out bytes.Buffer
			r.Print(&out, func(us int64) string { return fmt.Sprintf("%+d", (us-sim.Epoch)/sim.Second) })
			if *update {
				if err := os.WriteFile(file, []byte(state+"== then\n"+conf+"== is\n"+out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if out.String() != want {
				t.Errorf("it says\n%s\nwant\n%s", out.String(), want)
			}
		})
	}
}

// No field of a definition can change without being told: whoever adds one to the schema has it compared.
func TestEveryFieldCounts(t *testing.T) {
	for _, test := range []struct {
		m     schema.Message
		names map[string]string
	}{{&events.NodeDef{}, nodeNames}, {&events.PartitionDef{}, partitionNames}} {
		fields := schema.Of(test.m).Descriptor().Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			if test.names[string(f.Name())] == "-" {
				continue
			}
			m := schema.Of(test.m).New()
			switch {
			case f.IsList():
				l := m.Mutable(f).List()
				l.Append(some(f, l.NewElement()))
			default:
				m.Set(f, some(f, m.NewField(f)))
			}
			if d := differ(test.m, schema.Plain(m), test.names); len(d) != 1 || d[0].New == "" {
				t.Errorf("%s is set, and the difference is %v", f.FullName(), d)
			}
		}
	}
}

func some(f protoreflect.FieldDescriptor, zero protoreflect.Value) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("x")
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(3)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(3)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(3)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	}
	return zero
}

// A configuration that contradicts itself would be refused, with the controller's sentence; nothing else is told.
func TestRefused(t *testing.T) {
	s := sim.NewScript(sim.Options{})
	s.Run("nodes n1 cpus=4\npartition batch default\nstart\n")
	next := s.World.Fold.Config().CloneVT()
	next.Partitions = append(next.Partitions, next.Partitions[0])
	r, err := Compare(s.World.Fold, next, s.World.Now())
	if err != nil || !strings.Contains(r.Refused, "batch is defined twice") || len(r.Jobs)+len(r.Nodes) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Compare(sim.New(sim.Options{}).Fold, next, 0); err == nil {
		t.Error("a cluster without a configuration has a plan")
	}
}

func TestSettings(t *testing.T) {
	set := func(pairs ...string) *events.Config {
		c := &events.Config{}
		for i := 0; i < len(pairs); i += 2 {
			c.Settings = append(c.Settings, &events.Setting{Key: pairs[i], Value: pairs[i+1]})
		}
		return c
	}
	got := fmt.Sprint(settings(set("KillWait", "30", "SlurmctldHost", "a", "SlurmctldHost", "b", "MaxJobCount", "5"), set("SlurmctldHost", "a", "KillWait", "60", "MinJobAge", "2")))
	want := fmt.Sprint([]Change{
		{Name: "KillWait", Kind: Changed, Fields: []Field{{Old: "30", New: "60"}}},
		{Name: "MaxJobCount", Kind: Removed, Fields: []Field{{Old: "5"}}, Note: "it falls back to its default"},
		{Name: "MinJobAge", Kind: Added, Fields: []Field{{New: "2"}}},
		{Name: "SlurmctldHost", Kind: Changed, Fields: []Field{{Old: "a,b", New: "a"}}},
	})
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
