package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// floors is the house: a package stands on the floor of the longest prefix listed here and imports strictly lower
// floors only (its own sub-packages' floors are listed with it). docs/architecture.md says what each is for.
var floors = map[string]int{
	"events/filename":     -1,
	"events/hostlist":     -1,
	"events/idset":        -1,
	"events/tres":         -1,
	"events/plain":        -1,
	"events/schema":       0,
	"events":              0,
	"projections":         1,
	"events/bus":          1,
	"executor/cgroup":     1,
	"executor/gpu":        1,
	"executor/machine":    1,
	"executor/usage":      1,
	"ledger/rows":         1,
	"projections/story":   2,
	"executor/pmi":        0,
	"executor/pmix":       2,
	"executor/tasks":      1,
	"executor/layout":     2,
	"executor/supervisor": 2,
	"scheduler/admit":     3,
	"scheduler/rank":      2,
	"scheduler/place":     2,
	"ledger/share":        2,
	"cli/slurm":           2,
	"scheduler/cycle":     4,
	"scheduler/feed":      4,
	"scheduler/sim":       5,
	"scheduler/plan":      5,
	"scheduler/replay":    5,
	"scheduler":           5,
	"executor":            5,
	"ledger":              5,
	"cli":                 6,
	"integration":         7,
	"deployments":         7,
	".":                   8,
}

// inside lists the packages that are one package in several folders: they may import each other.
var inside = []string{"events/bus", "cli/slurm", "cli", "executor/cgroup", "executor/gpu", "executor/supervisor", "integration", "scheduler/sim"}

// pure packages decide and fold: no clock, no chance, no disk, no network, no environment.
var pure = []string{"events", "events/filename", "events/hostlist", "events/idset", "events/tres", "events/plain", "events/schema", "projections", "projections/story", "ledger/rows",
	"scheduler/admit", "scheduler/rank", "scheduler/place", "scheduler/cycle", "scheduler/sim", "scheduler/plan", "cli/slurm", "executor/layout"}

// impure names what a pure package may not call, by import path.
var impure = map[string][]string{
	"time":         {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"},
	"os":           nil, // nil: nothing of it
	"net":          nil,
	"os/exec":      nil,
	"crypto/rand":  nil,
	"math/rand":    {"Int", "Intn", "Int63", "Float64", "Perm", "Shuffle", "Uint32", "Uint64"},
	"math/rand/v2": {"Int", "IntN", "Int64", "Float64", "Perm", "Shuffle", "Uint32", "Uint64", "N"},
}

var topLevel = []string{"events", "projections", "scheduler", "executor", "ledger", "cli", "deployments", "integration",
	"docs", "go.mod", "go.sum", "Taskfile.yml", "main.go", "floors_test.go", "README.md", "LICENSE"}

var noNames = []string{"common", "util", "utils", "types", "pkg", "helpers", "manager", "misc", "lib"}

func floorOf(dir string) (int, string, bool) {
	for d := dir; ; d = filepath.Dir(d) {
		if f, ok := floors[d]; ok && (d != "." || dir == ".") {
			return f, d, true
		}
		if d == "." {
			return 0, "", false
		}
	}
}

func isInside(a, b string) bool {
	for _, p := range inside {
		if (a == p || strings.HasPrefix(a, p+"/")) && (b == p || strings.HasPrefix(b, p+"/")) {
			_, pa, _ := floorOf(a)
			_, pb, _ := floorOf(b)
			if pa == pb {
				return true
			}
		}
	}
	return false
}

func isPure(dir string) bool {
	_, p, _ := floorOf(dir)
	return slices.Contains(pure, p)
}

// TestFloors: one floor imports only floors below it.
func TestFloors(t *testing.T) {
	files := 0
	eachGoFile(t, func(path string) {
		files++
		dir := filepath.Dir(path)
		floor, _, ok := floorOf(dir)
		if !ok {
			t.Errorf("%s: package %s has no floor: give it one in floors_test.go", path, dir)
			return
		}
		for _, name := range noNames {
			if filepath.Base(dir) == name {
				t.Errorf("%s: a package named %q says nothing of what is in it", path, name)
			}
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		test := strings.HasSuffix(path, "_test.go")
		for _, imp := range f.Imports {
			p, _ := strconv.Unquote(imp.Path.Value)
			if p == "stint" || !strings.HasPrefix(p, "stint/") {
				continue
			}
			to := strings.TrimPrefix(p, "stint/")
			toFloor, _, ok := floorOf(to)
			if !ok {
				t.Errorf("%s: imports %s, which has no floor", set.Position(imp.Pos()), to)
				continue
			}
			if to == dir || isInside(dir, to) {
				continue
			}
			// A test may look at its own package from outside, and at floors beside it; never above.
			if toFloor < floor || test && toFloor <= floor {
				continue
			}
			t.Errorf("%s: %s (floor %d) imports %s (floor %d): only lower floors", set.Position(imp.Pos()), dir, floor, to, toFloor)
		}
		if !test && isPure(dir) && !strings.HasSuffix(path, ".pb.go") {
			checkPure(t, set, f)
		}
	})
	if files < 8 {
		t.Fatalf("looked at %d files: not run in the repository's root?", files)
	}
}

func checkPure(t *testing.T, set *token.FileSet, f *ast.File) {
	names := map[string]string{}
	for _, imp := range f.Imports {
		p, _ := strconv.Unquote(imp.Path.Value)
		forbidden, listed := impure[p]
		if !listed {
			continue
		}
		if forbidden == nil {
			t.Errorf("%s: a pure package imports %s", set.Position(imp.Pos()), p)
			continue
		}
		name := filepath.Base(p)
		if name == "v2" {
			name = "rand"
		}
		if imp.Name != nil {
			name = imp.Name.Name
		}
		names[name] = p
	}
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok {
			if p, ok := names[id.Name]; ok && slices.Contains(impure[p], sel.Sel.Name) {
				t.Errorf("%s: a pure package calls %s.%s", set.Position(sel.Pos()), p, sel.Sel.Name)
			}
		}
		return true
	})
}

// TestTopLevel: the top level is given; nothing grows beside it.
func TestTopLevel(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || slices.Contains(topLevel, e.Name()) || e.Name() == "bin" {
			continue
		}
		t.Errorf("%s does not belong at the top level", e.Name())
	}
}

// TestFileLength: a file of over 900 lines wants to be two.
func TestFileLength(t *testing.T) {
	eachGoFile(t, func(path string) {
		if strings.HasSuffix(path, ".pb.go") {
			return
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			return
		}
		if n := strings.Count(string(b), "\n"); n > 900 {
			t.Errorf("%s has %d lines: it wants to be two files", path, n)
		}
	})
}

func eachGoFile(t *testing.T, fn func(path string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, ".go") {
			fn(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(fmt.Errorf("walk the source: %w", err))
	}
}
