package nofile_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"stint/cli/nofile"
)

// The runtime has raised the limit by the time a program can look, and what it was before is known here all the same.
func TestSoft(t *testing.T) {
	if os.Getenv("STINT_TEST_NOFILE") != "" {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now); err != nil {
			t.Fatal(err)
		}
		soft, ok := nofile.Soft()
		fmt.Println("seen:", soft, ok, now.Cur > 321)
		return
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("known on Linux on amd64 and arm64 only")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `ulimit -Sn 321 && exec "$0" -test.run=TestSoft`, self)
	cmd.Env = append(os.Environ(), "STINT_TEST_NOFILE=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "seen: 321 true true\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
