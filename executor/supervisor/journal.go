package supervisor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The journal is a file of frames, each a 32-bit little-endian length, a 32-bit CRC-32C of the rest, and a Record.
// A frame that is cut short, or does not match its sum, ends the journal: it and what follows was never promised to
// anybody, since a promise is made only after the frame was synced.
//
// Space is reserved ahead (fallocate, which leaves the file's length alone), so that a disk that fills up refuses new
// launches while the exits of what already runs can still be written.

const (
	journalFormat   = 1
	frameHead       = 8
	maxRecord       = 1 << 20
	reserveChunk    = 1 << 20
	reservePerStep  = 4096 // a Birth, some Deadlines, an Exited and a Tombstone
	journalFileName = "journal"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrame appends r as a frame.
func appendFrame(b []byte, r *Record) []byte {
	n := r.SizeVT()
	at := len(b)
	b = append(b, make([]byte, frameHead+n)...)
	body := b[at+frameHead:]
	if _, err := r.MarshalToSizedBufferVT(body); err != nil {
		panic("a record cannot be encoded: " + err.Error()) // only by a fault in generated code
	}
	binary.LittleEndian.PutUint32(b[at:], uint32(n))
	binary.LittleEndian.PutUint32(b[at+4:], crc32.Checksum(body, castagnoli))
	return b
}

// readFrames calls f for each whole record of b, and returns how many bytes they take. It never fails: what is torn or
// damaged ends the reading.
func readFrames(b []byte, f func(*Record)) int {
	good := 0
	for len(b)-good >= frameHead {
		n := int(binary.LittleEndian.Uint32(b[good:]))
		if n == 0 || n > maxRecord || len(b)-good-frameHead < n {
			break
		}
		body := b[good+frameHead : good+frameHead+n]
		if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[good+4:]) {
			break
		}
		r := &Record{}
		if r.UnmarshalVT(body) != nil || r.What == nil {
			break
		}
		f(r)
		good += frameHead + n
	}
	return good
}

// journal appends records; safe for many goroutines. One goroutine writes, what has gathered while it was busy together;
// another one syncs, for all who wait at the time.
type journal struct {
	dir      string
	kick     chan struct{} // there is something to write
	kickSync chan struct{} // somebody waits for the disk
	done     sync.WaitGroup

	mu         sync.Mutex
	idle       *sync.Cond // writing has become false
	writing    bool
	closed     bool
	file       *os.File
	size       int64 // of what is whole in the file
	reserved   int64 // up to where space is set aside
	queue      []entry
	queued     int64 // bytes in queue
	writerOver bool
	unsynced   []chan error // who waits for what is written to be on the disk
}

// safety is what an append waits for.
type safety int

const (
	inMemory safety = iota // nothing: it is written soon, and in order
	written                // that this process may be killed
	synced                 // that the machine may go down
)

// entry is a frame on its way to the file.
type entry struct {
	frame []byte
	need  safety
	wait  chan error // nil with inMemory
}

// openJournal opens the journal in dir, or makes an empty one, and calls f for each record. torn is the number of bytes
// dropped from its end; a damaged end is kept beside it as journal.torn for whoever wants to look.
func openJournal(dir string, f func(*Record)) (j *journal, torn int, err error) {
	path := filepath.Join(dir, journalFileName)
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, 0, fmt.Errorf("reading the journal: %w", err)
	}
	good := readFrames(b, f)
	if torn = len(b) - good; torn > 0 {
		// Best effort: with a full disk it is better to start than to keep the evidence.
		_ = os.WriteFile(path+".torn", b[good:], 0o600)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("opening the journal: %w", err)
	}
	if torn > 0 {
		if err := file.Truncate(int64(good)); err != nil {
			file.Close()
			return nil, 0, fmt.Errorf("cutting the torn end off the journal: %w", err)
		}
	}
	if _, err := file.Seek(int64(good), io.SeekStart); err != nil {
		file.Close()
		return nil, 0, fmt.Errorf("opening the journal: %w", err)
	}
	j = &journal{dir: dir, file: file, size: int64(good), reserved: int64(good), kick: make(chan struct{}, 1), kickSync: make(chan struct{}, 1)}
	j.idle = sync.NewCond(&j.mu)
	j.done.Add(2)
	go j.write()
	go j.sync()
	return j, torn, nil
}

// reserve makes sure that the exits of live steps still fit when the disk is full.
func (j *journal) reserve(live int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	need := j.size + j.queued + int64(live)*reservePerStep
	if need <= j.reserved {
		return nil
	}
	upTo := need + reserveChunk
	if err := setAside(j.file, j.size, upTo); err != nil {
		return err
	}
	j.reserved = upTo
	return nil
}

// setAside reserves the space from one offset of a file to another without making the file longer. A file system that
// cannot do it is no error: then the writes themselves will tell.
func setAside(f *os.File, from, upTo int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, from, upTo-from)
		switch {
		case err == nil, errors.Is(err, unix.EOPNOTSUPP):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		}
		return fmt.Errorf("setting space aside in the journal: %w", err)
	}
}

// append puts records at the end, and returns when they, and all before them, are as safe as is asked.
func (j *journal) append(need safety, records ...*Record) error {
	e := entry{need: need}
	for _, r := range records {
		e.frame = appendFrame(e.frame, r)
	}
	if need != inMemory {
		e.wait = make(chan error, 1)
	}
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return errors.New("the journal is closed")
	}
	j.queue = append(j.queue, e)
	j.queued += int64(len(e.frame))
	j.mu.Unlock()
	poke(j.kick)
	if e.wait == nil {
		return nil
	}
	return <-e.wait
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (j *journal) isClosed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.closed
}

// write writes until the journal is closed.
func (j *journal) write() {
	defer j.done.Done()
	defer func() {
		j.mu.Lock()
		j.writerOver = true
		j.mu.Unlock()
		poke(j.kickSync)
	}()
	for range j.kick {
		closed := j.isClosed()
		j.flush()
		if closed {
			return
		}
	}
}

// flush writes what has gathered. If the file does not take it, it is left as before, those who wait are told and their
// records dropped; records that nobody waits for are kept for the next time.
func (j *journal) flush() {
	j.mu.Lock()
	batch := j.queue
	if len(batch) == 0 {
		j.mu.Unlock()
		return
	}
	j.queue, j.queued, j.writing = nil, 0, true
	file, at := j.file, j.size
	j.mu.Unlock()

	var b []byte
	for _, e := range batch {
		b = append(b, e.frame...)
	}
	_, err := file.WriteAt(b, at)

	j.mu.Lock()
	defer j.mu.Unlock()
	j.writing = false
	j.idle.Broadcast()
	if err == nil {
		j.size = at + int64(len(b))
		j.reserved = max(j.reserved, j.size)
	} else {
		err = fmt.Errorf("writing the journal: %w", err)
		if file.Truncate(at) == nil {
			j.reserved = at // truncating gave the reserve back
		}
	}
	var kept []entry
	for _, e := range batch {
		switch {
		case e.wait == nil && err != nil:
			kept = append(kept, e)
			j.queued += int64(len(e.frame))
		case e.wait == nil:
		case e.need == synced && err == nil:
			j.unsynced = append(j.unsynced, e.wait)
		default:
			e.wait <- err
		}
	}
	j.queue = append(kept, j.queue...)
	if len(j.unsynced) > 0 {
		poke(j.kickSync)
	}
}

// sync syncs for those who wait, until the journal is closed and its writer over.
func (j *journal) sync() {
	defer j.done.Done()
	for range j.kickSync {
		j.mu.Lock()
		waiting, file, over := j.unsynced, j.file, j.writerOver
		j.unsynced = nil
		j.mu.Unlock()
		if len(waiting) > 0 {
			err := datasync(file)
			if err != nil {
				err = fmt.Errorf("syncing the journal: %w", err)
			}
			for _, w := range waiting {
				w <- err
			}
		}
		if over {
			return
		}
	}
}

func datasync(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// compact replaces the journal by one that holds these records only. They must stand for all that was appended before;
// the caller keeps others from appending meanwhile. Space for the exits of live steps is set aside in the new one.
func (j *journal) compact(records []*Record, live int) error {
	var b []byte
	for _, r := range records {
		b = appendFrame(b, r)
	}
	path := filepath.Join(j.dir, journalFileName)
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("compacting the journal: %w", err)
	}
	_, err = f.Write(b)
	reserved := int64(len(b)) + int64(live)*reservePerStep + reserveChunk
	if err == nil {
		err = setAside(f, int64(len(b)), reserved)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		f.Close()
		os.Remove(tmp)
		return fmt.Errorf("compacting the journal: %w", err)
	}
	if err := syncDir(j.dir); err != nil {
		return fmt.Errorf("compacting the journal: %w", err)
	}
	j.mu.Lock()
	for j.writing {
		j.idle.Wait()
	}
	old, waiting := j.file, j.queue // what is queued is among the records, and so on the disk
	j.file, j.size, j.reserved = f, int64(len(b)), reserved
	j.queue, j.queued = nil, 0
	j.mu.Unlock()
	for _, e := range waiting {
		if e.wait != nil {
			e.wait <- nil
		}
	}
	old.Close()
	return nil
}

// length is the size of the file, in bytes.
func (j *journal) length() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size + j.queued
}

// close writes what is left and ends the writer.
func (j *journal) close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	j.mu.Unlock()
	poke(j.kick)
	j.done.Wait()
	err := datasync(j.file)
	if cerr := j.file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("closing the journal: %w", err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// unixNow is the wall clock, for what people read.
func unixNow() int64 { return time.Now().UnixNano() }
