package machine

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
)

// Now reads how busy the machine whose /proc is below root is at the moment: its load of the last minute in hundredths, and
// the memory that nothing uses in MiB.
func Now(root string) (loadHundredths uint32, freeMiB uint64, err error) {
	text, err := readText(root, "proc/loadavg")
	if err != nil {
		return 0, 0, fmt.Errorf("reading the load of this machine: %w", err)
	}
	word, _, _ := strings.Cut(text, " ")
	load, err := strconv.ParseFloat(word, 64)
	if err != nil || load < 0 || load > math.MaxUint32/100 {
		return 0, 0, fmt.Errorf("reading the load of this machine: %s says %.40q", filepath.Join(root, "proc/loadavg"), text)
	}
	kib, err := memoryOf(root, "MemFree:")
	if err != nil {
		return 0, 0, err
	}
	return uint32(math.Round(load * 100)), kib / 1024, nil
}

// KHz is how fast the first CPU of the machine whose /proc is below root runs; 0: that is not told.
func KHz(root string) uint64 {
	text, err := readText(root, "proc/cpuinfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "cpu MHz" {
			mhz, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return uint64(mhz * 1000)
		}
	}
	return 0
}
