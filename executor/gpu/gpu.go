// Package gpu finds the GPUs of a node, and says how a job is told which of them are its own.
//
// Real ones are found through NVML (asked by the helper program stint-nvml, see directory nvml, so that the main binary
// needs no C library), the NVIDIA driver's files, and sysfs for AMD and Intel; or a site names their device files in
// gres.conf. Virtual nodes have simulated ones: device files that can be opened by those whose control group allows it and
// do nothing.
package gpu

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"stint/events/hostlist"
)

// Vendor says where a GPU was found, which decides the environment variables it is named in.
type Vendor string

const (
	NVIDIA    Vendor = "nvidia"
	AMD       Vendor = "amd"
	Intel     Vendor = "intel"
	Listed    Vendor = "listed"    // by a device file in gres.conf
	Simulated Vendor = "simulated" // of a virtual node
)

// GPU is one GPU of a node.
type GPU struct {
	Index     int      // its number on the node: what allocations name
	Vendor    Vendor   // where it was found
	Type      string   // "a100", as in --gres=gpu:a100:1; may be empty
	Name      string   // as the vendor writes it
	UUID      string   // empty where the vendor has none
	BusID     string   // PCI address in sysfs form: "0000:07:00.0"; empty if not on PCI
	NUMANode  int      // -1: not known
	CPUs      []int    // logical CPUs near it; empty: all the same
	MemoryMiB uint64   // 0: not known
	Files     []string // the device files that only its holder may open
	Devices   []Device // their numbers, in the order of Files; empty for stand-ins that are plain files
}

// Device is a device file's type and number.
type Device struct {
	Type  byte // 'c' or 'b'
	Major uint32
	Minor uint32
}

// Devices gives the numbers of all device files of these GPUs.
func Devices(gpus []GPU) []Device {
	var out []Device
	for _, g := range gpus {
		out = append(out, g.Devices...)
	}
	return out
}

// Pick gives the GPUs with the given indices, in that order. An index that is not there is an error.
func Pick(gpus []GPU, indices []int) ([]GPU, error) {
	var out []GPU
	for _, n := range indices {
		i := slices.IndexFunc(gpus, func(g GPU) bool { return g.Index == n })
		if i < 0 {
			return nil, fmt.Errorf("there is no GPU %d on this node, which has %d", n, len(gpus))
		}
		out = append(out, gpus[i])
	}
	return out, nil
}

// DeviceOf gives the number of a device file; ok is false for a plain file.
func DeviceOf(path string) (d Device, ok bool, err error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Device{}, false, fmt.Errorf("looking at device file %s: %w", path, err)
	}
	d = Device{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		d.Type = 'c'
	case unix.S_IFBLK:
		d.Type = 'b'
	default:
		return Device{}, false, nil
	}
	return d, true, nil
}

// addFiles gives a GPU its device files with their numbers.
func (g *GPU) addFiles(paths ...string) error {
	for _, p := range paths {
		d, ok, err := DeviceOf(p)
		if err != nil {
			return err
		}
		g.Files = append(g.Files, p)
		if ok {
			g.Devices = append(g.Devices, d)
		}
	}
	return nil
}

// Line is one line of gres.conf for GPUs, as far as it says which they are.
type Line struct {
	Type string
	File string // a file, or several as "/dev/nvidia[0-3]": one GPU each
	CPUs []int  // Cores=, already as logical CPUs
}

// FromLines makes the GPUs that gres.conf names, numbered in its order. Lines that name no file are refused: use Count
// for GPUs that have none.
func FromLines(lines []Line) ([]GPU, error) {
	var out []GPU
	for _, l := range lines {
		files, err := hostlist.Expand(l.File, 1024)
		if err != nil {
			return nil, fmt.Errorf("gres.conf: File=%s: %w", l.File, err)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("gres.conf: a line for GPUs of type %q names no File=", l.Type)
		}
		for _, f := range files {
			g := GPU{Index: len(out), Vendor: Listed, Type: l.Type, Name: l.Type, NUMANode: -1, CPUs: l.CPUs}
			if err := g.addFiles(f); err != nil {
				return nil, fmt.Errorf("gres.conf: File=%s: %w", l.File, err)
			}
			out = append(out, g)
		}
	}
	return out, nil
}

var (
	model      = regexp.MustCompile(`^[a-z]{1,3}[0-9]{1,4}[a-z]{0,2}$`)
	notAModel  = regexp.MustCompile(`^(sxm|hbm|oam|v)[0-9]$|^[0-9]`)
	notInNames = regexp.MustCompile(`[^a-z0-9]+`)
)

// shortType makes the word that users write from a vendor's name: "NVIDIA A100-SXM4-40GB" is "a100". A name without a
// model number in it becomes one word with underscores.
func shortType(name string) string {
	words := strings.Fields(notInNames.ReplaceAllString(strings.ToLower(name), " "))
	for i, w := range words {
		if model.MatchString(w) && !notAModel.MatchString(w) {
			return w
		}
		// "GeForce RTX 4090", "Data Center GPU Max 1550": the number is a word of its own.
		if i+1 < len(words) && slices.Contains([]string{"rtx", "gtx", "max", "flex", "arc"}, w) {
			if _, err := strconv.Atoi(words[i+1]); err == nil {
				return w + words[i+1]
			}
		}
	}
	return strings.Join(words, "_")
}

// Is says whether a site may call the GPU by this type: the short one, or any part of the vendor's name with underscores
// for blanks, in any case ("a100-sxm4", "nvidia_a100").
func (g *GPU) Is(typ string) bool {
	typ = strings.ToLower(typ)
	return typ == g.Type || typ != "" && strings.Contains(strings.ReplaceAll(strings.ToLower(g.Name), " ", "_"), typ)
}

// Found is the outcome of looking for GPUs.
type Found struct {
	GPUs  []GPU
	Notes []string // what could not be found out and why, in whole sentences, for doctor
}

// Detect looks for the GPUs of a machine whose /proc, /sys and /dev are below root ("/" for this one), NVIDIA's first.
// helper is the program that asks NVML; empty, or one that fails, leaves it to the driver's files, and is noted.
func Detect(root, helper string) (Found, error) {
	var f Found
	for _, find := range []func(string, *Found) error{
		func(root string, f *Found) error { return findNVIDIA(root, helper, f) }, findAMD, findIntel,
	} {
		if err := find(root, &f); err != nil {
			return Found{}, fmt.Errorf("looking for GPUs: %w", err)
		}
	}
	for i := range f.GPUs {
		f.GPUs[i].Index = i
	}
	return f, nil
}

func readText(path ...string) (string, error) {
	b, err := os.ReadFile(filepath.Join(path...))
	return strings.TrimSpace(string(b)), err
}
