package gpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fake builds a root directory: a path that ends in "/" is a directory, a text that begins with "-> " is a link.
func fake(t *testing.T, files map[string]string) string {
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(p, 0o755)
		} else if to, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(to, p)
		} else {
			err = os.WriteFile(p, []byte(text+"\n"), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func driverText(model, uuid, bus, minor string) string {
	return "Model: \t\t " + model + "\nIRQ:   \t\t 123\nGPU UUID: \t " + uuid + "\nVideo BIOS: \t 92.00\nBus Type: \t PCIe\nBus Location: \t " + bus + "\nDevice Minor: \t " + minor + "\nGPU Excluded:\t No"
}

func nvidiaRoot(t *testing.T) string {
	return fake(t, map[string]string{
		"proc/driver/nvidia/gpus/0000:1a:00.0/information": driverText("NVIDIA A100-SXM4-40GB", "GPU-00000000-0000-4000-8000-000000000000", "0000:1a:00.0", "0"),
		"proc/driver/nvidia/gpus/0000:2a:00.0/information": driverText("NVIDIA H100 80GB HBM3", "GPU-00000000-0000-4000-8000-000000000001", "0000:2a:00.0", "5"),
		"sys/bus/pci/devices/0000:1a:00.0/numa_node":       "0",
		"sys/bus/pci/devices/0000:1a:00.0/local_cpulist":   "0-3,8-11",
		"sys/bus/pci/devices/0000:2a:00.0/numa_node":       "-1",
		"dev/nvidia0": "", "dev/nvidia5": "", "dev/nvidiactl": "",
	})
}

func TestNVIDIA(t *testing.T) {
	root := nvidiaRoot(t)
	want := []GPU{
		{Index: 0, Vendor: NVIDIA, Type: "a100", Name: "NVIDIA A100-SXM4-40GB", UUID: "GPU-00000000-0000-4000-8000-000000000000",
			BusID: "0000:1a:00.0", NUMANode: 0, CPUs: []int{0, 1, 2, 3, 8, 9, 10, 11}, Files: []string{root + "/dev/nvidia0"}},
		{Index: 1, Vendor: NVIDIA, Type: "h100", Name: "NVIDIA H100 80GB HBM3", UUID: "GPU-00000000-0000-4000-8000-000000000001",
			BusID: "0000:2a:00.0", NUMANode: -1, Files: []string{root + "/dev/nvidia5"}},
	}
	check := func(helper string, want []GPU, note string) {
		t.Helper()
		f, err := Detect(root, helper)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(f.GPUs, want) {
			t.Errorf("got  %+v\nwant %+v", f.GPUs, want)
		}
		if len(f.Notes) != 1 || !strings.Contains(f.Notes[0], note) {
			t.Errorf("notes %q, want one on %q", f.Notes, note)
		}
	}
	check("", want, "stint-nvml is not installed")
	helper := func(script string) string {
		p := filepath.Join(t.TempDir(), "helper")
		if err := os.WriteFile(p, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return p
	}
	check(helper("exit 3"), want, "exit status 3")
	check(helper("echo nonsense"), want, "invalid character")
	check(helper(`echo '{"error":"starting NVML: ERROR_LIBRARY_NOT_FOUND","gpus":[]}'; exit 1`), want, "LIBRARY_NOT_FOUND")
	check("/nowhere/stint-nvml", want, "no such file")
	// What the helper's own test expects it to print.
	golden, err := filepath.Abs("testdata/nvml.json")
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		want[i].MemoryMiB = []uint64{40960, 81920}[i]
	}
	want[0].Name = "Mock " + want[0].Name
	check(helper("cat "+golden), want, "partitioned")
}

func TestNoDeviceFile(t *testing.T) {
	root := nvidiaRoot(t)
	if err := os.Remove(filepath.Join(root, "dev/nvidia0")); err != nil {
		t.Fatal(err)
	}
	f, err := Detect(root, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(f.GPUs) != 1 || f.GPUs[0].Type != "h100" || f.GPUs[0].Index != 0 || !strings.Contains(strings.Join(f.Notes, " "), "/dev/nvidia0; nvidia-modprobe") {
		t.Errorf("%+v", f)
	}
}

func TestHelperIsFound(t *testing.T) {
	if p := Helper(); p != "" {
		t.Skip("the helper is installed here: ", p)
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if err := os.WriteFile(filepath.Join(dir, "stint-nvml"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if p := Helper(); p != filepath.Join(dir, "stint-nvml") {
		t.Errorf("%q", p)
	}
}

func TestNoGPUs(t *testing.T) {
	f, err := Detect(t.TempDir(), "/nowhere/stint-nvml")
	if err != nil || len(f.GPUs) != 0 || len(f.Notes) != 0 {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestBrokenDriverFile(t *testing.T) {
	for _, text := range []string{"Model: x", driverText("x", "y", "z", "-3"), driverText("x", "y", "z", "none")} {
		root := fake(t, map[string]string{"proc/driver/nvidia/gpus/0/information": text})
		if _, err := Detect(root, ""); err == nil || !strings.Contains(err.Error(), "minor") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAMDAndIntel(t *testing.T) {
	root := fake(t, map[string]string{
		// An AMD compute GPU on the second bus address, one on the first, and a plain graphics card.
		"sys/class/drm/card0/device":                              "-> ../../../devices/0000:c3:00.0",
		"sys/class/drm/card1/device":                              "-> ../../../devices/0000:03:00.0",
		"sys/class/drm/card2/device":                              "-> ../../../devices/0000:05:00.0",
		"sys/class/drm/card3/device":                              "-> ../../../devices/0000:07:00.0",
		"sys/class/drm/card3/lmem_total_bytes":                    "51539607552",
		"sys/class/drm/card4/device":                              "-> ../../../devices/0000:00:02.0",
		"sys/class/drm/card5/device":                              "-> ../../../devices/0000:09:00.0",
		"sys/class/drm/card0-HDMI-A-1/status":                     "disconnected",
		"sys/class/drm/renderD128/dev":                            "226:128",
		"sys/devices/0000:c3:00.0/vendor":                         "0x1002",
		"sys/devices/0000:c3:00.0/uevent":                         "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:c3:00.0",
		"sys/devices/0000:c3:00.0/product_name":                   "AMD Instinct MI250X",
		"sys/devices/0000:c3:00.0/unique_id":                      "0xdeadbeef00000001",
		"sys/devices/0000:c3:00.0/mem_info_vram_total":            "68702699520",
		"sys/devices/0000:c3:00.0/drm/card0/":                     "",
		"sys/devices/0000:c3:00.0/drm/renderD128/":                "",
		"sys/devices/0000:03:00.0/vendor":                         "0x1002",
		"sys/devices/0000:03:00.0/uevent":                         "PCI_SLOT_NAME=0000:03:00.0",
		"sys/devices/0000:03:00.0/drm/card1/":                     "",
		"sys/devices/0000:03:00.0/drm/renderD129/":                "",
		"sys/devices/0000:05:00.0/vendor":                         "0x1002",
		"sys/devices/0000:05:00.0/uevent":                         "PCI_SLOT_NAME=0000:05:00.0",
		"sys/devices/0000:05:00.0/drm/card2/":                     "",
		"sys/devices/0000:07:00.0/vendor":                         "0x8086",
		"sys/devices/0000:07:00.0/device":                         "0x0bd5",
		"sys/devices/0000:07:00.0/uevent":                         "PCI_SLOT_NAME=0000:07:00.0",
		"sys/devices/0000:07:00.0/drm/card3/":                     "",
		"sys/devices/0000:07:00.0/drm/renderD131/":                "",
		"sys/devices/0000:00:02.0/vendor":                         "0x8086",
		"sys/devices/0000:00:02.0/uevent":                         "PCI_SLOT_NAME=0000:00:02.0",
		"sys/devices/0000:00:02.0/drm/card4/":                     "",
		"sys/devices/0000:09:00.0/vendor":                         "0x8086",
		"sys/devices/0000:09:00.0/device":                         "0xe20b",
		"sys/devices/0000:09:00.0/uevent":                         "PCI_SLOT_NAME=0000:09:00.0",
		"sys/devices/0000:09:00.0/drm/card5/":                     "",
		"sys/devices/0000:09:00.0/tile0/physical_vram_size_bytes": "0x2f8000000",
		"sys/bus/pci/devices/0000:c3:00.0/numa_node":              "3",
		"sys/bus/pci/devices/0000:c3:00.0/local_cpulist":          "48-49",
		"sys/class/kfd/kfd/topology/nodes/0/properties":           "cpu_cores_count 64\nsimd_count 0\ndrm_render_minor 0",
		"sys/class/kfd/kfd/topology/nodes/1/properties":           "cpu_cores_count 0\nsimd_count 440\ndrm_render_minor 128",
		"sys/class/kfd/kfd/topology/nodes/2/properties":           "simd_count 440\ndrm_render_minor 129",
		"dev/dri/card0":                                           "", "dev/dri/renderD128": "", "dev/dri/card1": "", "dev/dri/renderD129": "", "dev/dri/card2": "",
		"dev/dri/card3": "", "dev/dri/renderD131": "", "dev/dri/card4": "", "dev/dri/card5": "",
	})
	f, err := Detect(root, "")
	if err != nil {
		t.Fatal(err)
	}
	dri := root + "/dev/dri/"
	want := []GPU{
		{Index: 0, Vendor: AMD, Type: "amd_gpu", Name: "AMD GPU", BusID: "0000:03:00.0", NUMANode: -1, Files: []string{dri + "card1", dri + "renderD129"}},
		{Index: 1, Vendor: AMD, Type: "mi250x", Name: "AMD Instinct MI250X", UUID: "GPU-deadbeef00000001", BusID: "0000:c3:00.0", NUMANode: 3,
			CPUs: []int{48, 49}, MemoryMiB: 65520, Files: []string{dri + "card0", dri + "renderD128"}},
		{Index: 2, Vendor: Intel, Type: "intel_0bd5", Name: "Intel GPU 0bd5", BusID: "0000:07:00.0", NUMANode: -1, MemoryMiB: 49152,
			Files: []string{dri + "card3", dri + "renderD131"}},
		{Index: 3, Vendor: Intel, Type: "intel_e20b", Name: "Intel GPU e20b", BusID: "0000:09:00.0", NUMANode: -1, MemoryMiB: 12160,
			Files: []string{dri + "card5"}},
	}
	if !reflect.DeepEqual(f.GPUs, want) {
		for i := range max(len(want), len(f.GPUs)) {
			if i < len(f.GPUs) {
				t.Errorf("got  %+v", f.GPUs[i])
			}
			if i < len(want) {
				t.Errorf("want %+v", want[i])
			}
		}
	}
}

func TestTypes(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA A100-SXM4-40GB": "a100", "NVIDIA A100 80GB PCIe": "a100", "NVIDIA H100 80GB HBM3": "h100", "NVIDIA H200": "h200",
		"NVIDIA GH200 480GB": "gh200", "Tesla V100-SXM2-16GB": "v100", "Tesla T4": "t4", "Tesla P100-PCIE-16GB": "p100", "NVIDIA L40S": "l40s",
		"NVIDIA RTX A6000": "a6000", "NVIDIA GeForce RTX 4090": "rtx4090", "Quadro RTX 6000": "rtx6000", "NVIDIA B200": "b200",
		"AMD Instinct MI250X": "mi250x", "AMD Instinct MI300X": "mi300x", "Intel Data Center GPU Max 1550": "max1550", "NVIDIA A30": "a30",
		"Graphics Device": "graphics_device", "": "",
	} {
		if got := shortType(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestTypeOfASite(t *testing.T) {
	g := GPU{Type: "a100", Name: "NVIDIA A100-SXM4-40GB"}
	for typ, want := range map[string]bool{"a100": true, "A100": true, "nvidia_a100-sxm4-40gb": true, "a100-sxm4": true, "h100": false, "": false} {
		if g.Is(typ) != want {
			t.Errorf("%q: %v", typ, !want)
		}
	}
}

func TestFromLines(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"gpu0", "gpu1", "gpu2"} {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := FromLines([]Line{{Type: "a100", File: dir + "/gpu[0-1]", CPUs: []int{0, 1}}, {Type: "t4", File: "/dev/zero"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[1].Index != 1 || got[1].Type != "a100" || got[1].Files[0] != dir+"/gpu1" || len(got[1].Devices) != 0 || !slices.Equal(got[0].CPUs, []int{0, 1}) ||
		got[2].Type != "t4" || !slices.Equal(got[2].Devices, []Device{{'c', 1, 5}}) {
		t.Errorf("%+v", got)
	}
	for _, bad := range []Line{{File: dir + "/gpu9"}, {File: ""}, {File: dir + "/gpu[0-"}} {
		if _, err := FromLines([]Line{bad}); err == nil || !strings.Contains(err.Error(), "gres.conf") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if p, err := Pick(got, []int{2, 0}); err != nil || p[0].Index != 2 || p[1].Index != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := Pick(got, []int{3}); err == nil {
		t.Error("GPU 3 was found")
	}
	if d := Devices(got); len(d) != 1 {
		t.Errorf("%v", d)
	}
}

func TestEnvironment(t *testing.T) {
	two := func(v Vendor) []GPU { return []GPU{{Index: 3, Vendor: v}, {Index: 1, Vendor: v}} }
	for _, tt := range []struct {
		name    string
		granted []GPU
		flags   string
		hidden  bool
		want    string
	}{
		{"none", nil, "", true, ""},
		{"nvidia", two(NVIDIA), "", false, "CUDA_VISIBLE_DEVICES=3,1 GPU_DEVICE_ORDINAL=3,1"},
		{"nvidia, others hidden", two(NVIDIA), "", true, "CUDA_VISIBLE_DEVICES=0,1 GPU_DEVICE_ORDINAL=0,1"},
		{"amd", two(AMD), "", false, "ROCR_VISIBLE_DEVICES=3,1 GPU_DEVICE_ORDINAL=3,1"},
		{"intel", two(Intel), "", false, "ZE_AFFINITY_MASK=3,1"},
		{"unknown vendor", two(Listed), "", false, "CUDA_VISIBLE_DEVICES=3,1 ROCR_VISIBLE_DEVICES=3,1 ZE_AFFINITY_MASK=3,1 GPU_DEVICE_ORDINAL=3,1"},
		{"flags", two(Listed), "Nvidia_GPU_env, opencl_env", false, "CUDA_VISIBLE_DEVICES=3,1 GPU_DEVICE_ORDINAL=3,1"},
		{"no_gpu_env", two(NVIDIA), "no_gpu_env", false, ""},
	} {
		env, err := ParseEnv(tt.flags)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(Environment(tt.granted, env, tt.hidden), " "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	for _, bad := range []string{"one_sharing", "nvidia_gpu_env,no_gpu_env"} {
		if _, err := ParseEnv(bad); err == nil || !strings.Contains(err.Error(), "gres.conf") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// The main binary is static: NVML, which needs C, stays in the helper.
func TestMainBinaryHasNoNVML(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "stint")
	list.Env = append(os.Environ(), "CGO_ENABLED=1") // without it the helper's files would not be seen
	out, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, p := range strings.Fields(string(out)) {
		if strings.HasPrefix(p, "github.com/NVIDIA/") || strings.HasPrefix(p, "stint/executor/gpu/nvml") {
			t.Errorf("stint depends on %s", p)
		}
	}
}
