package bus

import (
	"crypto/sha256"
	"fmt"
)

// MaxBlob is the most bytes one blob may hold. Packed ones are kept far below it.
const MaxBlob = 64 << 20

// BlobRef names a range of bytes in a blob, and what they must be.
type BlobRef struct {
	Subject string // blob.<uid>.<nonce>
	Offset  uint64 // of the first byte
	Length  uint64 // in bytes
	SHA256  [sha256.Size]byte
}

// RefTo returns the reference to part, which lies at offset in the blob of that subject.
func RefTo(subject string, offset uint64, part []byte) BlobRef {
	return BlobRef{Subject: subject, Offset: offset, Length: uint64(len(part)), SHA256: sha256.Sum256(part)}
}

// Check returns ErrCorrupt, with the reference named, unless data is what the reference says.
func (r BlobRef) Check(data []byte) error {
	if uint64(len(data)) != r.Length || sha256.Sum256(data) != r.SHA256 {
		return fmt.Errorf("reading %s: %w", r, ErrCorrupt)
	}
	return nil
}

// String returns the reference as subject[offset:end].
func (r BlobRef) String() string {
	return fmt.Sprintf("%s[%d:%d]", r.Subject, r.Offset, r.Offset+r.Length)
}
