//go:build cgo

// Command stint-nvml asks the NVIDIA management library for the GPUs of this machine and prints them as JSON. It is a
// program of its own because the library is reached through C: the rest of Stint is static and cannot load it, and a
// library that crashes or hangs takes nobody with it.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// report is read by package gpu, which has a twin of it.
type report struct {
	Driver string `json:"driver,omitempty"`
	Error  string `json:"error,omitempty"`
	GPUs   []gpu  `json:"gpus"`
}

type gpu struct {
	Minor     int    `json:"minor"` // the number in /dev/nvidiaN
	Name      string `json:"name"`
	UUID      string `json:"uuid"`
	BusID     string `json:"busId,omitempty"`
	MemoryMiB uint64 `json:"memoryMiB"`
	MIG       bool   `json:"mig,omitempty"`
}

func main() { os.Exit(run(nvml.New(), os.Stdout)) }

// run prints the report and gives the exit status. Nothing of the library may be called before Init has succeeded: the
// functions are not there, and calling one ends the process.
func run(lib nvml.Interface, out io.Writer) int {
	var r report
	r.GPUs = []gpu{}
	err := fill(lib, &r)
	if err != nil {
		r = report{Error: err.Error(), GPUs: []gpu{}}
	}
	if json.NewEncoder(out).Encode(r) != nil || err != nil {
		return 1
	}
	return 0
}

func fill(lib nvml.Interface, r *report) error {
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return fmt.Errorf("starting NVML: %v", ret)
	}
	defer lib.Shutdown()
	var ret nvml.Return
	if r.Driver, ret = lib.SystemGetDriverVersion(); ret != nvml.SUCCESS {
		return fmt.Errorf("asking NVML for the driver's version: %v", ret)
	}
	count, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return fmt.Errorf("asking NVML for the number of GPUs: %v", ret)
	}
	for i := range count {
		d, ret := lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			return fmt.Errorf("asking NVML for GPU %d: %v", i, ret)
		}
		g, err := describe(d)
		if err != nil {
			return fmt.Errorf("asking NVML about GPU %d: %w", i, err)
		}
		r.GPUs = append(r.GPUs, g)
	}
	return nil
}

func describe(d nvml.Device) (gpu, error) {
	var g gpu
	var ret nvml.Return
	if g.Minor, ret = d.GetMinorNumber(); ret != nvml.SUCCESS {
		return g, fmt.Errorf("its device file: %v", ret)
	}
	if g.Name, ret = d.GetName(); ret != nvml.SUCCESS {
		return g, fmt.Errorf("its name: %v", ret)
	}
	if g.UUID, ret = d.GetUUID(); ret != nvml.SUCCESS {
		return g, fmt.Errorf("its UUID: %v", ret)
	}
	memory, ret := d.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return g, fmt.Errorf("its memory: %v", ret)
	}
	g.MemoryMiB = memory.Total >> 20
	pci, ret := d.GetPciInfo()
	if ret != nvml.SUCCESS {
		return g, fmt.Errorf("its place on the bus: %v", ret)
	}
	for _, c := range pci.BusId {
		if c == 0 {
			break
		}
		g.BusID += string(rune(c))
	}
	// Only data centre GPUs can be partitioned; the others say that they do not support the question.
	switch mode, _, ret := d.GetMigMode(); ret {
	case nvml.SUCCESS:
		g.MIG = mode == nvml.DEVICE_MIG_ENABLE
	case nvml.ERROR_NOT_SUPPORTED:
	default:
		return g, fmt.Errorf("whether it is partitioned: %v", ret)
	}
	return g, nil
}
