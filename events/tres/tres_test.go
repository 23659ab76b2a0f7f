package tres

import (
	"reflect"
	"testing"
)

func TestOrders(t *testing.T) {
	for _, c := range []struct{ in, byID, byText string }{
		{"", "", ""},
		{"billing=64,node=8,gres/gpu=24,mem=6400,cpu=64", "cpu=64,mem=6400M,node=8,billing=64,gres/gpu=24", "billing=64,cpu=64,gres/gpu=24,mem=6400M,node=8"},
		{"CPU=32,Mem=64000M,node=4,billing=32,gres/gpu:a100=8,GRES/gpu=8", "cpu=32,mem=62.50G,node=4,billing=32,gres/gpu=8,gres/gpu:a100=8", "billing=32,cpu=32,gres/gpu:a100=8,gres/gpu=8,mem=62.50G,node=4"},
		{"license/matlab=2,cpu=1k", "cpu=1024,license/matlab=2", "cpu=1024,license/matlab=2"},
	} {
		l, err := Parse(c.in)
		if err != nil || l.String() != c.byID || l.Alphabetical(Auto) != c.byText {
			t.Errorf("Parse(%q) = %s | %s, %v; want %s | %s", c.in, l, l.Alphabetical(Auto), err, c.byID, c.byText)
		}
	}
	for _, bad := range []string{"cpu", "cpu=", "cpu=-1", "foo=1", "gres/=1", "gres/gpu:=1", "cpu=1,cpu=2", "cpu=1.5", "mem=1.5G", "cpu=1,", "mem=1X", "cpu=+1", "cpu=99999999999999999999"} {
		if l, err := Parse(bad); err == nil {
			t.Errorf("Parse(%q) = %s; want an error", bad, l)
		}
	}
}

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		mib  int64
		unit Unit
		want string
	}{
		{0, Auto, "0"}, {100, Auto, "100M"}, {1024, Auto, "1G"}, {1536, Auto, "1.50G"}, {16000, Auto, "16000M"}, {32000, Auto, "32000M"},
		{64000, Auto, "62.50G"}, {1025, Auto, "1025M"}, {1 << 20, Auto, "1T"}, {16000, Shortest, "15.62G"}, {16000, Plain, "16000M"},
		{100, Giga, "0.10G"}, {100, Mega, "100M"}, {2, Kilo, "2048K"}, {2048, Giga, "2G"},
	} {
		if got := Memory(c.mib, c.unit); got != c.want {
			t.Errorf("Memory(%d, %c) = %s; want %s", c.mib, c.unit, got, c.want)
		}
	}
	if got := Format(20424, 'K', Auto); got != "20424K" {
		t.Errorf("20424 KiB = %s", got)
	}
}

func TestParseMemory(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "1": 1, "100K": 1, "1025K": 2, "1023k": 1, "2048K": 2, "1M": 1, "1MB": 1, "1G": 1024, "1gb": 1024, "1T": 1 << 20, "16000": 16000} {
		if got, err := ParseMemory(in); err != nil || got != want {
			t.Errorf("ParseMemory(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "1.5G", "-5", "abc", "1GiB", "1P", "1B", "5c", "0x10", "1e3", "G", "9999999999T", "99999999999999999999"} {
		if got, err := ParseMemory(bad); err == nil {
			t.Errorf("ParseMemory(%q) = %d; want an error", bad, got)
		}
	}
}

func TestArithmetic(t *testing.T) {
	a, _ := Parse("cpu=1,mem=100")
	b, _ := Parse("gres/gpu=2,cpu=3")
	if got := a.Plus(b).Times(2).String(); got != "cpu=8,mem=200M,gres/gpu=4" {
		t.Errorf("(a+b)*2 = %s", got)
	}
	if a.String() != "cpu=1,mem=100M" {
		t.Errorf("a was changed: %s", a)
	}
	if got := a.Plus(b).Without("cpu", "mem"); !reflect.DeepEqual(got, List{{"gres/gpu", 2}}) {
		t.Errorf("without cpu and mem: %v", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"cpu=4,mem=500M,gres/gpu:a100=2", "CPU=1k", "fs/disk=1,bb/x=1", "mem=1.5G"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(l.text(Plain))
		if err != nil || !reflect.DeepEqual(again, l) {
			t.Fatalf("%q: %v came back as %v, %v", text, l, again, err)
		}
	})
}
