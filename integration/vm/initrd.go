package vm

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

// An initial file system is a cpio archive in the "newc" form: for each file a header of fixed-width hexadecimal numbers,
// its name and its contents, each padded to four bytes.

type archive struct {
	w     *bufio.Writer
	inode int
	err   error
}

// writeInitrd packs /init, /program and /args (NUL-separated), and a console for /init to speak to.
func writeInitrd(path, first, program string, args []string) error {
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
	text := strings.Join(args, "\x00")
	a.add("args", 0o100644, int64(len(text)), 0, 0, strings.NewReader(text))
	a.add("TRAILER!!!", 0, 0, 0, 0, strings.NewReader(""))
	if a.err == nil {
		a.err = a.w.Flush()
	}
	if a.err == nil {
		a.err = f.Close()
	}
	return a.err
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
