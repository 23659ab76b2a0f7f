package gpu

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"stint/events/idset"
)

const maxCPU = 1 << 16

// locate fills in what sysfs says of the GPU's place on the PCI bus.
func (g *GPU) locate(root string) {
	g.NUMANode = -1
	if g.BusID == "" {
		return
	}
	dir := filepath.Join(root, "sys/bus/pci/devices", g.BusID)
	if s, err := readText(dir, "numa_node"); err == nil {
		if n, err := strconv.Atoi(s); err == nil {
			g.NUMANode = n
		}
	}
	if s, err := readText(dir, "local_cpulist"); err == nil {
		if set, err := idset.Parse(s, maxCPU); err == nil && !set.Empty() {
			g.CPUs = set.Slice()
		}
	}
}

// card is a graphics card that the kernel's direct rendering shows.
type card struct {
	dir   string // of the PCI device in sysfs
	card  string // class/drm/cardN
	bus   string
	nodes []string // "card1", "renderD129"
}

// cards lists the cards of one PCI vendor ("0x1002"), in the order of their bus addresses.
func cards(root, vendor string) ([]card, error) {
	entries, err := os.ReadDir(filepath.Join(root, "sys/class/drm"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []card
	for _, e := range entries {
		n, ok := strings.CutPrefix(e.Name(), "card")
		if _, err := strconv.Atoi(n); !ok || err != nil {
			continue // an output such as card0-HDMI-A-1, or a render node
		}
		c := card{card: filepath.Join(root, "sys/class/drm", e.Name())}
		c.dir = filepath.Join(c.card, "device")
		if v, err := readText(c.dir, "vendor"); err != nil || v != vendor {
			continue
		}
		if text, err := readText(c.dir, "uevent"); err == nil {
			for line := range strings.Lines(text) {
				if s, ok := strings.CutPrefix(strings.TrimSpace(line), "PCI_SLOT_NAME="); ok {
					c.bus = s
				}
			}
		}
		nodes, err := os.ReadDir(filepath.Join(c.dir, "drm"))
		if err != nil {
			return nil, err
		}
		for _, d := range nodes {
			if exists(filepath.Join(root, "dev/dri", d.Name())) {
				c.nodes = append(c.nodes, d.Name())
			}
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b card) int { return strings.Compare(a.bus, b.bus) })
	return out, nil
}

func (c *card) gpu(root string, v Vendor) (GPU, error) {
	g := GPU{Vendor: v, BusID: c.bus}
	g.locate(root)
	for _, n := range c.nodes {
		if err := g.addFiles(filepath.Join(root, "dev/dri", n)); err != nil {
			return GPU{}, err
		}
	}
	return g, nil
}

// findAMD takes the cards that the compute driver (kfd) knows: others only draw.
func findAMD(root string, f *Found) error {
	if !exists(filepath.Join(root, "sys/class/kfd/kfd/topology/nodes")) {
		return nil
	}
	computes, err := kfdMinors(root)
	if err != nil {
		return err
	}
	list, err := cards(root, "0x1002")
	if err != nil {
		return err
	}
	for _, c := range list {
		if !slices.ContainsFunc(c.nodes, func(n string) bool { return computes[n] }) {
			continue
		}
		g, err := c.gpu(root, AMD)
		if err != nil {
			return err
		}
		if g.Name, err = readText(c.dir, "product_name"); err != nil || g.Name == "" {
			g.Name = "AMD GPU"
		}
		g.Type = shortType(g.Name)
		if id, err := readText(c.dir, "unique_id"); err == nil && id != "" {
			g.UUID = "GPU-" + strings.TrimPrefix(id, "0x")
		}
		g.MemoryMiB = readBytes(filepath.Join(c.dir, "mem_info_vram_total")) >> 20
		f.GPUs = append(f.GPUs, g)
	}
	return nil
}

// kfdMinors gives the render nodes of compute nodes that have shader units (the others are processors).
func kfdMinors(root string) (map[string]bool, error) {
	paths, err := filepath.Glob(filepath.Join(root, "sys/class/kfd/kfd/topology/nodes/*/properties"))
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, p := range paths {
		text, err := readText(p)
		if err != nil {
			continue // a node that this container may not see
		}
		have := map[string]string{}
		for line := range strings.Lines(text) {
			if k, v, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
				have[k] = v
			}
		}
		if have["simd_count"] != "" && have["simd_count"] != "0" {
			out["renderD"+have["drm_render_minor"]] = true
		}
	}
	return out, nil
}

// findIntel takes cards with memory of their own: the graphics inside a processor is no GPU to hand out.
func findIntel(root string, f *Found) error {
	list, err := cards(root, "0x8086")
	if err != nil {
		return err
	}
	for _, c := range list {
		bytes := readBytes(filepath.Join(c.card, "lmem_total_bytes"))
		tiles, err := filepath.Glob(filepath.Join(c.dir, "tile*/physical_vram_size_bytes"))
		if err != nil {
			return err
		}
		for _, t := range tiles {
			bytes += readBytes(t)
		}
		if bytes == 0 {
			continue
		}
		g, err := c.gpu(root, Intel)
		if err != nil {
			return err
		}
		g.MemoryMiB = bytes >> 20
		// The kernel has no names for them, but PCI's number of the model.
		id, err := readText(c.dir, "device")
		if err != nil {
			return err
		}
		id = strings.TrimPrefix(id, "0x")
		g.Name, g.Type = "Intel GPU "+id, "intel_"+id
		f.GPUs = append(f.GPUs, g)
	}
	return nil
}

// readBytes reads a number, decimal or with 0x; 0 if it is not there.
func readBytes(path string) uint64 {
	s, err := readText(path)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return 0
	}
	return n
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
