package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"stint/projections"
)

// Snapshots of the fold lie beside the tables, fold-<sequence>: a cache whose loss costs a replay and changes nothing.
// Two are kept, and one is used only if it is whole and not ahead of the tables.
//
//	"stint fold 2\n"  length (8 bytes)  SHA-256 of the rest  projections.Snapshot, packed
const (
	foldPrefix = "fold-"
	foldMagic  = "stint fold 2\n"
	foldHead   = len(foldMagic) + 8 + sha256.Size
	foldsKept  = 2
)

// saveFold writes a snapshot of the fold. The tables must be committed to where the fold is.
func (l *Ledger) saveFold() error {
	body, err := l.fold.Snapshot().Pack()
	if err != nil {
		return fmt.Errorf("encoding the fold: %w", err)
	}
	sum := sha256.Sum256(body)
	head := binary.BigEndian.AppendUint64([]byte(foldMagic), uint64(len(body)))
	head = append(head, sum[:]...)
	name := l.fs.PathJoin(l.dir, foldPrefix+strconv.FormatUint(l.fold.Seq(), 10))
	if err := l.writeFile(name, head, body); err != nil {
		l.fs.Remove(name + ".new")
		return fmt.Errorf("writing the snapshot %s: %w", name, err)
	}
	l.snapped, l.work = l.fold.Seq(), 0
	l.mu.Lock()
	l.snappedSeq = l.snapped
	l.mu.Unlock()
	for i, seq := range l.folds() {
		if i >= foldsKept {
			l.fs.Remove(l.fs.PathJoin(l.dir, foldPrefix+strconv.FormatUint(seq, 10)))
		}
	}
	return nil
}

func (l *Ledger) writeFile(name string, parts ...[]byte) error {
	f, err := l.fs.Create(name+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if _, err := f.Write(p); err != nil {
			f.Close()
			return err
		}
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := l.fs.Rename(name+".new", name); err != nil {
		return err
	}
	return syncDir(l.fs, l.dir)
}

func syncDir(fs vfs.FS, name string) error {
	d, err := fs.OpenDir(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// folds lists the snapshots by sequence, the latest first.
func (l *Ledger) folds() []uint64 {
	names, err := l.fs.List(l.dir)
	if err != nil {
		return nil
	}
	var seqs []uint64
	for _, n := range names {
		if digits, ok := strings.CutPrefix(filepath.Base(n), foldPrefix); ok {
			if seq, err := strconv.ParseUint(digits, 10, 64); err == nil {
				seqs = append(seqs, seq)
			}
		}
	}
	sort.Slice(seqs, func(i, j int) bool { return seqs[i] > seqs[j] })
	return seqs
}

// loadFold is the latest usable snapshot, or the fold before the first message.
func (l *Ledger) loadFold() (*projections.Cluster, uint64) {
	for _, seq := range l.folds() {
		if seq > l.cursor {
			continue // the tables lost their end in a crash: they are made again from an earlier state
		}
		c, err := l.readFold(seq)
		if err != nil {
			l.o.Log.Warn("passing over a snapshot of the fold", "dir", l.dir, "sequence", seq, "why", err)
			continue
		}
		return c, seq
	}
	return projections.New(), 0
}

func (l *Ledger) readFold(seq uint64) (*projections.Cluster, error) {
	f, err := l.fs.Open(l.fs.PathJoin(l.dir, foldPrefix+strconv.FormatUint(seq, 10)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	if len(data) < foldHead || !bytes.HasPrefix(data, []byte(foldMagic)) {
		return nil, errors.New("it is of another format")
	}
	body := data[foldHead:]
	if binary.BigEndian.Uint64(data[len(foldMagic):]) != uint64(len(body)) ||
		sha256.Sum256(body) != [sha256.Size]byte(data[len(foldMagic)+8:foldHead]) {
		return nil, errors.New("it is damaged")
	}
	snap, err := projections.Unpack(body)
	if err != nil {
		return nil, err
	}
	c, err := projections.Load(snap)
	if err != nil {
		return nil, err
	}
	if c.Seq() != seq {
		return nil, fmt.Errorf("it holds sequence %d", c.Seq())
	}
	return c, nil
}
