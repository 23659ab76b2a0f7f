//go:build cgo

package main

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

var rewrite = flag.Bool("rewrite", false, "write the expected output anew")

// machine is a mocked one with what the mocks leave out, and steady UUIDs.
func machine(t *testing.T, configs ...gpus.Config) *server.Server {
	s, err := server.New(server.WithGPUs(configs...), server.WithDriverVersion("550.54.15"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range configs {
		d, ret := s.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			t.Fatal(ret)
		}
		dev := d.(*server.Device)
		dev.GetUUIDFunc = func() (string, nvml.Return) {
			return "GPU-00000000-0000-4000-8000-00000000000" + string(rune('0'+i)), nvml.SUCCESS
		}
		dev.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
			var p nvml.PciInfo
			for j, c := range "00000000:" + string(rune('1'+i)) + "A:00.0" {
				p.BusId[j] = int8(c)
			}
			return p, nvml.SUCCESS
		}
	}
	return s
}

// The expected output is what package gpu reads in its own test.
func TestReport(t *testing.T) {
	const file = "../testdata/nvml.json"
	s := machine(t, gpus.A100_SXM4_40GB, gpus.H100_SXM5_80GB)
	d, _ := s.DeviceGetHandleByIndex(1)
	d.SetMigMode(nvml.DEVICE_MIG_ENABLE)
	// A GPU whose device file is not the one of its index.
	d.(*server.Device).GetMinorNumberFunc = func() (int, nvml.Return) { return 5, nvml.SUCCESS }
	var out bytes.Buffer
	if rc := run(s, &out); rc != 0 {
		t.Fatalf("status %d: %s", rc, &out)
	}
	if *rewrite {
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("got  %swant %s", &out, want)
	}
}

func TestFailuresAreReported(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*server.Server)
		want  string
	}{
		{"no library", func(s *server.Server) {
			s.InitFunc = func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }
			s.DeviceGetCountFunc = func() (int, nvml.Return) { panic("called without the library") }
		}, "starting NVML"},
		{"a lost GPU", func(s *server.Server) {
			s.DeviceGetHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_GPU_IS_LOST }
		}, "GPU 0"},
		{"no count", func(s *server.Server) {
			s.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_UNKNOWN }
		}, "number of GPUs"},
		{"no name", func(s *server.Server) {
			d, _ := s.DeviceGetHandleByIndex(0)
			d.(*server.Device).GetNameFunc = func() (string, nvml.Return) { return "", nvml.ERROR_UNKNOWN }
		}, "its name"},
	} {
		s := machine(t, gpus.A100_SXM4_40GB)
		tt.spoil(s)
		var out bytes.Buffer
		if rc := run(s, &out); rc != 1 || !strings.Contains(out.String(), tt.want) || !strings.Contains(out.String(), `"gpus":[]`) {
			t.Errorf("%s: status %d: %s; want 1 and something on %q", tt.name, rc, &out, tt.want)
		}
	}
}

func TestNotPartitionable(t *testing.T) {
	s := machine(t, gpus.A100_SXM4_40GB)
	d, _ := s.DeviceGetHandleByIndex(0)
	d.(*server.Device).GetMigModeFunc = func() (int, int, nvml.Return) { return 0, 0, nvml.ERROR_NOT_SUPPORTED }
	var out bytes.Buffer
	if rc := run(s, &out); rc != 0 || strings.Contains(out.String(), "mig") {
		t.Errorf("status %d: %s", rc, &out)
	}
}

// On a machine without the library the real one says so and nothing crashes.
func TestRealLibrary(t *testing.T) {
	if _, err := os.Stat("/proc/driver/nvidia"); err == nil {
		t.Skip("needs a machine without an NVIDIA driver")
	}
	var out bytes.Buffer
	if rc := run(nvml.New(), &out); rc != 1 || !strings.Contains(out.String(), "starting NVML") {
		t.Errorf("status %d: %s", rc, &out)
	}
}
