package tasks

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// PidPlace is what stands last in the environment of a process that is to be told its own number, until FillPid has filled it: an
// environment is fixed before the process has a number.
func PidPlace(name string) string { return name + "=0000000000" }

// FillPid writes the number of a process into the place at the end of its environment. The process has to stand at its exec,
// traced by the thread that calls. An error says that the place is not there or cannot be written.
func FillPid(pid int, name string) error {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 49 {
		return fmt.Errorf("the process does not tell where its environment is: %q", b)
	}
	end, err := strconv.ParseInt(f[51-3], 10, 64)
	if err != nil {
		return err
	}
	was := append([]byte(PidPlace(name)), 0)
	at := end - int64(len(was))
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	is := make([]byte, len(was))
	if _, err := mem.ReadAt(is, at); err != nil {
		return err
	}
	if !bytes.Equal(is, was) {
		return fmt.Errorf("its place holds %q", is)
	}
	now := make([]byte, len(was))
	copy(now, fmt.Sprintf("%s=%d", name, pid))
	_, err = mem.WriteAt(now, at)
	return err
}
