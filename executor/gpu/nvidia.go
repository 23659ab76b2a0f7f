package gpu

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// report is what the helper program prints. Its twin is in directory nvml, which must not be imported from here; a file
// in testdata that both sides' tests read holds them together.
type report struct {
	Driver string `json:"driver"`
	Error  string `json:"error"`
	GPUs   []struct {
		Minor     int    `json:"minor"`
		Name      string `json:"name"`
		UUID      string `json:"uuid"`
		BusID     string `json:"busId"`
		MemoryMiB uint64 `json:"memoryMiB"`
		MIG       bool   `json:"mig"`
	} `json:"gpus"`
}

// helperPatience bounds the helper: a GPU that has fallen off the bus can hang the library.
const helperPatience = 30 * time.Second

func findNVIDIA(root, helper string, f *Found) error {
	cards, err := os.ReadDir(filepath.Join(root, "proc/driver/nvidia/gpus"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no driver, hence no GPU that could be used
	}
	if err != nil {
		return err
	}
	if helper == "" {
		f.Notes = append(f.Notes, "The size of GPU memory and partitions (MIG) are not known: the helper program stint-nvml is not installed.")
	} else {
		r, err := askNVML(helper)
		if err == nil {
			return f.addNVML(root, r)
		}
		f.Notes = append(f.Notes, fmt.Sprintf("The GPUs are taken from the driver's files, because %v.", err))
	}
	for _, c := range cards {
		text, err := readText(root, "proc/driver/nvidia/gpus", c.Name(), "information")
		if err != nil {
			return err
		}
		g, err := parseInformation(text)
		if err != nil {
			return fmt.Errorf("reading the NVIDIA driver's word on %s: %w", c.Name(), err)
		}
		if err := f.addNVIDIA(root, g.name, g.uuid, g.bus, g.minor, 0); err != nil {
			return err
		}
	}
	return nil
}

// Helper gives the path of the program that asks NVML: beside this program, in the directories for such helpers, or on
// PATH. Empty if it is not installed.
func Helper() string {
	const name = "stint-nvml"
	dirs := []string{"/usr/libexec/stint", "/usr/lib/stint"}
	if self, err := os.Executable(); err == nil {
		dirs = append([]string{filepath.Dir(self)}, dirs...)
	}
	for _, d := range dirs {
		if st, err := os.Stat(filepath.Join(d, name)); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return filepath.Join(d, name)
		}
	}
	if p, err := exec.LookPath(name); err == nil {
		return p
	}
	return ""
}

// askNVML runs the helper.
func askNVML(helper string) (report, error) {
	ctx, cancel := context.WithTimeout(context.Background(), helperPatience)
	defer cancel()
	var r report
	c := exec.CommandContext(ctx, helper)
	c.WaitDelay = time.Second
	out, err := c.Output()
	if jerr := json.Unmarshal(out, &r); jerr != nil {
		if err == nil {
			err = jerr
		}
		return r, fmt.Errorf("asking %s failed: %w", helper, err)
	}
	if r.Error != "" {
		return r, fmt.Errorf("%s says: %s", helper, r.Error)
	}
	return r, nil
}

func (f *Found) addNVML(root string, r report) error {
	for _, g := range r.GPUs {
		bus := sysfsBus(g.BusID)
		if err := f.addNVIDIA(root, g.Name, g.UUID, bus, g.Minor, g.MemoryMiB); err != nil {
			return err
		}
		if g.MIG {
			f.Notes = append(f.Notes, fmt.Sprintf("GPU %s is partitioned (MIG); it is handed out as a whole, not by partition.", g.UUID))
		}
	}
	return nil
}

func (f *Found) addNVIDIA(root, name, uuid, bus string, minor int, memoryMiB uint64) error {
	g := GPU{Vendor: NVIDIA, Type: shortType(name), Name: name, UUID: uuid, BusID: bus, MemoryMiB: memoryMiB}
	g.locate(root)
	file := filepath.Join(root, "dev/nvidia"+strconv.Itoa(minor))
	err := g.addFiles(file)
	if errors.Is(err, fs.ErrNotExist) {
		f.Notes = append(f.Notes, fmt.Sprintf("GPU %s cannot be used: it has no device file %s; nvidia-modprobe or nvidia-smi makes it.", cmp.Or(uuid, bus), file))
		return nil
	}
	if err != nil {
		return err
	}
	f.GPUs = append(f.GPUs, g)
	return nil
}

// sysfsBus turns NVML's form of a PCI address (eight digits of domain, capitals) into the one of sysfs.
func sysfsBus(s string) string {
	s = strings.ToLower(s)
	if domain, rest, ok := strings.Cut(s, ":"); ok && len(domain) == 8 && strings.HasPrefix(domain, "0000") {
		return domain[4:] + ":" + rest
	}
	return s
}

type information struct {
	name, uuid, bus string
	minor           int
}

// parseInformation reads /proc/driver/nvidia/gpus/*/information.
func parseInformation(text string) (information, error) {
	g := information{minor: -1}
	for line := range strings.Lines(text) {
		k, v, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		v = strings.TrimSpace(v)
		switch strings.TrimSpace(k) {
		case "Model":
			g.name = v
		case "GPU UUID":
			g.uuid = v
		case "Bus Location":
			g.bus = sysfsBus(v)
		case "Device Minor":
			n, err := strconv.Atoi(v)
			if err != nil || n < 0 {
				return g, fmt.Errorf("its device minor is %q", v)
			}
			g.minor = n
		}
	}
	if g.minor < 0 {
		return g, errors.New("it has no device minor")
	}
	return g, nil
}
