package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"stint/events/bus"
)

// What the log must be after the power went: a prefix of what was written. The NATS server cuts its last block at the first record whose
// sum is wrong, but the sum leaves out the four bytes that say how long a message's headers are. With one of their bits wrong it keeps
// the record, whose message cannot be read then or is another one, and everything behind: a hole in the midst of the log. A message is synced before it is
// acknowledged, and so is all before it: what lies behind such a record never was.

// A record in a block: its length (32 bits, of which the highest says that there are headers), its sequence and its time (64 each), the
// length of the subject (16), the subject, the length of the headers (32) and these, if there are some, the text, and a sum (64).
const (
	hasHeaders  = 1 << 31
	recordStart = 22
	recordSum   = 8
)

// CutPrefix begins the names of the files, in the folder of the streams, that hold what was cut off the log.
const CutPrefix = "cut-off-EVENTS-"

// keepPrefix makes the log in dir a prefix of what was written: it moves everything from the first record on that cannot be read into a file beside the
// streams, and returns its name, and the sequence of that record; "" where nothing was wrong. No server may be running there.
func keepPrefix(dir string, now time.Time) (kept string, seq uint64, err error) {
	file, err := lastBlock(filepath.Join(dir, "jetstream", "$G", "streams", bus.EventsStream, "msgs"))
	if file == "" || err != nil {
		return "", 0, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", 0, err
	}
	at, seq, is := unreadable(data)
	if !is {
		return "", 0, nil
	}
	kept = filepath.Join(dir, fmt.Sprintf("%s%d-%s", CutPrefix, seq, now.UTC().Format("20060102T150405.000")))
	if err := writeSynced(kept, data[at:]); err != nil {
		return "", 0, err
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return "", 0, err
	}
	// What it takes for the end of the log, beside the blocks, may be behind the cut: it would go on from there.
	if err := os.Remove(filepath.Join(filepath.Dir(file), "index.db")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", 0, errors.Join(err, f.Close())
	}
	return kept, seq, errors.Join(f.Truncate(int64(at)), f.Sync(), f.Close())
}

// lastBlock is the file of a stream's last messages; "" if there is none.
func lastBlock(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	last, is := 0, false
	for _, e := range entries {
		var n int
		if _, err := fmt.Sscanf(e.Name(), "%d.blk", &n); err == nil && strings.HasSuffix(e.Name(), ".blk") {
			last, is = max(last, n), true
		}
	}
	if !is {
		return "", nil
	}
	return filepath.Join(dir, fmt.Sprintf("%d.blk", last)), nil
}

// unreadable finds the first record of a block whose headers are not as long as it says. Where anything that the sum covers is wrong, it looks no further: the server
// cuts there.
func unreadable(block []byte) (at int, seq uint64, is bool) {
	for at+recordStart+recordSum <= len(block) {
		length := binary.LittleEndian.Uint32(block[at:])
		n := int(length &^ hasHeaders)
		subject := int(binary.LittleEndian.Uint16(block[at+20:]))
		if n > len(block)-at || n < recordStart+subject+recordSum {
			break
		}
		seq := binary.LittleEndian.Uint64(block[at+4:])
		rest := block[at+recordStart+subject : at+n-recordSum]
		const erased = 3 << 62 // erased, or a mark that one is
		if length&hasHeaders != 0 && seq&erased == 0 && !headersFit(rest) {
			return at, seq, true
		}
		at += n
	}
	return 0, 0, false
}

// headersFit says whether the length before the headers is theirs: they begin with a line of their own and end with the first empty one.
func headersFit(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	n := binary.LittleEndian.Uint32(b)
	b = b[4:]
	end := bytes.Index(b, []byte("\r\n\r\n"))
	return bytes.HasPrefix(b, []byte("NATS/1.0")) && end >= 0 && int64(n) == int64(end)+4
}

// writeSynced writes a file that will be there when the power goes.
func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// CutOff lists the files in dir that hold what was cut off the log when its server started after the power had gone, by name.
func CutOff(dir string) []string {
	list, _ := filepath.Glob(filepath.Join(dir, CutPrefix+"*")) // only a bad pattern is an error
	slices.Sort(list)
	return list
}
