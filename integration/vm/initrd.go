package vm

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// An initial file system is a cpio archive in the "newc" form: for each file a header of fixed-width hexadecimal numbers,
// its name and its contents, each padded to four bytes.

type archive struct {
	w     *bufio.Writer
	inode int
	err   error
}

// unit makes the program a service; without the default dependencies nothing else has to be there.
const unit = `[Unit]
DefaultDependencies=no
[Service]
ExecStart=/init
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
Delegate=yes
TimeoutStopSec=5
`

// writeInitrd packs /init, /program, /args and /env (NUL-separated), a console for /init to speak to, more files by their names there and on
// the host, and a unit if systemd is to run the program.
func writeInitrd(path, first, program string, args, env []string, more map[string]string, systemd bool) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	a := archive{w: bufio.NewWriter(f)}
	a.add("dev", 0o040755, 0, 0, 0, strings.NewReader(""))
	a.add("dev/console", 0o020600, 0, 5, 1, strings.NewReader(""))
	a.file("init", first)
	a.file("program", program)
	a.text("args", strings.Join(args, "\x00"))
	a.text("env", strings.Join(env, "\x00"))
	made := map[string]bool{"dev": true}
	folders := func(name string) {
		for i, c := range name {
			if d := name[:i]; c == '/' && !made[d] {
				made[d] = true
				a.add(d, 0o040755, 0, 0, 0, strings.NewReader(""))
			}
		}
	}
	if systemd {
		const name = "etc/systemd/system/vm.service"
		folders(name)
		a.text(name, unit)
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		folders(name[1:])
		a.file(name[1:], more[name])
	}
	a.add("TRAILER!!!", 0, 0, 0, 0, strings.NewReader(""))
	if a.err == nil {
		a.err = a.w.Flush()
	}
	if a.err == nil {
		a.err = f.Close()
	}
	return a.err
}

func (a *archive) text(name, text string) {
	a.add(name, 0o100644, int64(len(text)), 0, 0, strings.NewReader(text))
}

func (a *archive) file(name, from string) {
	f, err := os.Open(from)
	if err != nil {
		a.err = err
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		a.err = err
		return
	}
	a.add(name, 0o100755, st.Size(), 0, 0, f)
}

func (a *archive) add(name string, mode int, size int64, major, minor int, from io.Reader) {
	if a.err != nil {
		return
	}
	a.inode++
	n, _ := fmt.Fprintf(a.w, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, len(name)+1, 0, name)
	a.pad(int64(n))
	copied, err := io.Copy(a.w, from)
	if err == nil && copied != size {
		err = fmt.Errorf("%s changed while it was packed", name)
	}
	if err != nil {
		a.err = err
		return
	}
	a.pad(size)
}

func (a *archive) pad(n int64) { _, _ = a.w.WriteString("\x00\x00\x00"[:(4-n%4)%4]) }
