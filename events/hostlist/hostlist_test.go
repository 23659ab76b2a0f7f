package hostlist

import (
	"math/rand"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	for _, c := range []struct{ expr, want string }{
		{"", ""},
		{"n[1-4]", "n1 n2 n3 n4"},
		{"n1,n2", "n1 n2"},
		{"n1 n2\nn3", "n1 n2 n3"},
		{"a[01-03,7],b,c[1-2]x[3-4]", "a01 a02 a03 a7 b c1x3 c1x4 c2x3 c2x4"},
		{"n[008-012]", "n008 n009 n010 n011 n012"},
		{"n[1-3,5,05-06],x", "n1 n2 n3 n5 n05 n06 x"},
		{"n[2,1,2]", "n2 n1 n2"},
		{"n[9-11]", "n9 n10 n11"},
		{"n1,,n2,", "n1 n2"},
		{"gpu-node[01-02]", "gpu-node01 gpu-node02"},
	} {
		got, err := Expand(c.expr, MaxHosts)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("Expand(%q) = %q, %v; want %q", c.expr, strings.Join(got, " "), err, c.want)
		}
		if n, err := Count(c.expr, MaxHosts); err != nil || n != len(got) {
			t.Errorf("Count(%q) = %d, %v; want %d", c.expr, n, err, len(got))
		}
	}
}

func TestExpandRefuses(t *testing.T) {
	for _, c := range []struct{ expr, say string }{
		{"n[1-", "not closed"}, {"n1]", "not opened"}, {"n[[1]]", "inside"}, {"m[01-03]x", "follows the last bracket"},
		{"n[3-1]", "backwards"}, {"n[a]", "not a number"}, {"n[1-2-3]", "not a number"}, {"n[]", "not a number"},
		{"n[-1]", "not a number"}, {"[1-3]", "text before"}, {"n[1-9999999999999999999]", "not a number"},
		{"n[1-1000000]", "limit"}, {"a[1-9999]b[1-9999]c[1-9999]d[1-9999]e[1-9999]", "limit"},
		{"n[0-999999999999999999]", "limit"}, {"a[1-3],b[1-131070]", "limit"},
	} {
		if got, err := Expand(c.expr, MaxHosts); err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("Expand(%q) = %d names, %v; want an error with %q", c.expr, len(got), err, c.say)
		}
	}
	if _, err := Expand("a,b,c", 2); err == nil {
		t.Error("three plain names passed a limit of two")
	}
}

func TestCompress(t *testing.T) {
	for _, c := range []struct{ hosts, want, sorted string }{
		{"n1 n2 n3 n4", "n[1-4]", "n[1-4]"},
		{"n4 n2 n1 n2", "n[4,2,1-2]", "n[1-2,2,4]"},
		{"n3 n1 n2", "n[3,1-2]", "n[1-3]"},
		{"rack01-n001 rack01-n002 rack02-n001 x y7 y8 y9 y10 y11", "rack01-n[001-002],rack02-n001,x,y[7-11]", "rack01-n[001-002],rack02-n001,x,y[7-11]"},
		{"n008 n009 n010 n9 n10 n11", "n[008-010,9-11]", "n[9-11,008-010]"},
		{"n1 n02 n2 n10 n3 m1", "n[1,02,2,10,3],m1", "m1,n[1-3,02,10]"},
		{"n1 n2 n3 n5 n05 n06 x", "n[1-3,5,05-06],x", "n[1-3,5,05-06],x"},
		{"a1x a2x", "a1x,a2x", "a1x,a2x"},
		{"n1", "n1", "n1"}, {"", "", ""}, {"n1 n1", "n[1,1]", "n[1,1]"}, {"7 8", "7,8", "7,8"},
		{"n099 n100", "n[099-100]", "n[099-100]"}, {"n99 n100", "n[99-100]", "n[99-100]"}, {"n09 n10 n100", "n[09-10,100]", "n[09-10,100]"},
	} {
		hosts := strings.Fields(c.hosts)
		if got := Compress(hosts); got != c.want {
			t.Errorf("Compress(%s) = %s; want %s", c.hosts, got, c.want)
		}
		if got := CompressSorted(hosts); got != c.sorted {
			t.Errorf("CompressSorted(%s) = %s; want %s", c.hosts, got, c.sorted)
		}
	}
}

func TestRuns(t *testing.T) {
	for _, c := range []struct {
		in   []int
		want string
	}{{[]int{2, 2}, "2(x2)"}, {[]int{3, 1}, "3,1"}, {[]int{4, 4, 3}, "4(x2),3"}, {nil, ""}, {[]int{8}, "8"}} {
		if got := Runs(c.in); got != c.want {
			t.Errorf("Runs(%v) = %s; want %s", c.in, got, c.want)
		}
	}
}

// Names of every sort of width and order survive Compress and Expand.
func TestRoundTrip(t *testing.T) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewSource(seed))
	for i := 0; i < 3000; i++ {
		hosts := make([]string, r.Intn(12)+1)
		for j := range hosts {
			hosts[j] = []string{"n", "n1x", "node-"}[r.Intn(3)]
			if r.Intn(8) > 0 {
				hosts[j] += pad(uint64(r.Intn(14)), r.Intn(4))
			} else if r.Intn(2) == 0 {
				hosts[j] += strconv.Itoa(95 + r.Intn(10))
			}
		}
		got, err := Expand(Compress(hosts), MaxHosts)
		if err != nil || !reflect.DeepEqual(got, hosts) {
			t.Fatalf("seed %d: %v became %q and then %v, %v", seed, hosts, Compress(hosts), got, err)
		}
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"n[1-4],m", "a[01-03]b[1-2]", "n[1-", "x]", "n[0-99999999999]", "[1-2]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		hosts, err := Expand(expr, 1000)
		if err != nil {
			return
		}
		if len(hosts) > 1000 {
			t.Fatalf("%q: %d names past the limit", expr, len(hosts))
		}
		again, err := Expand(Compress(hosts), 1000)
		if err != nil || len(again) != len(hosts) {
			t.Fatalf("%q: %v came back as %v, %v", expr, hosts, again, err)
		}
		for i := range hosts {
			if hosts[i] != again[i] {
				t.Fatalf("%q: %v came back as %v", expr, hosts, again)
			}
		}
	})
}

// What a real scontrol show hostlist and hostlistsorted make of lists.
func TestWrittenAgain(t *testing.T) {
	for _, c := range [][3]string{
		{"16,17,n3", "[16-17],n3", "[16-17],n3"},
		{"[3-9],12", "[3-9,12]", "[3-9,12]"},
		{"[3-9],12,n0[3-7],n02", "[3-9,12],n0[3-7],n02", "[3-9,12],n02,n0[3-7]"},
		{"n0[3-7],n08,n0[09-10]", "n0[3-7],n08,n0[09-10]", "n08,n0[3-7,09-10]"},
		{"n[01-03],n04", "n[01-04]", "n[01-04]"},
		{"007,008", "[007-008]", "[007-008]"},
		{"n09,n10,n1[1-2]", "n[09-10],n1[1-2]", "n[09-10],n1[1-2]"},
		{"1x[1-5],x1y23,n0[02-06,0],x1y[04-16,23]", "1x[1-5],x1y23,n0[02-06,0],x1y[04-16,23]", "1x[1-5],n0[0,02-06],x1y[04-16,23,23]"},
		{"n0[1-2]c[3-4]", "n01c[3-4],n02c[3-4]", "n01c[3-4],n02c[3-4]"},
		{"", "", ""},
	} {
		names, err := Parse(c[0], 1000)
		if err != nil {
			t.Error(err)
			continue
		}
		got := names.Compress()
		names.Sort()
		if sorted := names.Compress(); got != c[1] || sorted != c[2] {
			t.Errorf("%s: %s, sorted %s; want %s and %s", c[0], got, sorted, c[1], c[2])
		}
	}
	for _, bad := range []string{"n1[2]x", "n0[1-2]c[3-4],n0[1-2]c5", "n[1", "n]"} {
		if names, err := Parse(bad, 1000); err == nil {
			t.Errorf("%s: %v", bad, names.Hosts())
		}
	}
}
