package events

import (
	"fmt"
	"strconv"
	"strings"
)

// SubjectSched is the leader's subject, SubjectShare the ledger's. Every stored subject of EVENTS has one kind of author.
const (
	SubjectSched = "ev.sched"
	SubjectShare = "ev.share"

	prefixIntent = "ev.intent."
	prefixNode   = "ev.node."
)

// SubjectIntentHost is where the agent of a host appends what the host's users wish.
func SubjectIntentHost(host string) string { return prefixIntent + "@" + Token(host) }

// SubjectIntentUser is the second door: the same intents, by a user with a credential of their own.
func SubjectIntentUser(user string) string { return prefixIntent + Token(user) }

// SubjectNode is where the executor of a node appends its facts.
func SubjectNode(name string) string { return prefixNode + Token(name) }

// SubjectUsage is where the executor of a node publishes samples.
func SubjectUsage(node string) string { return "usage." + Token(node) }

// SubjectJob is where one state change of one job is published for services.
func SubjectJob(state, partition, user string, id uint32) string {
	return "job." + Token(state) + "." + Token(partition) + "." + Token(user) + "." + strconv.FormatUint(uint64(id), 10)
}

// SubjectBlob is where the agent stores what a submission refers to. The nonce is any text without a dot.
func SubjectBlob(uid uint32, nonce string) string {
	return "blob." + strconv.FormatUint(uint64(uid), 10) + "." + Token(nonce)
}

// BlobOf reports whether a subject is one of those under which a user's blobs are stored.
func BlobOf(subject string, uid uint32) bool {
	rest, ok := strings.CutPrefix(subject, "blob."+strconv.FormatUint(uint64(uid), 10)+".")
	return ok && rest != "" && !strings.ContainsAny(rest, ".*> ")
}

// SubjectRun nudges a node: something about what should run there has changed.
func SubjectRun(node string) string { return "run." + Token(node) }

// SubjectStep asks a node's executor about steps. from is who asks: @ and the token of an agent's host, or the token of another node;
// each may speak there only as itself.
func SubjectStep(node, from string) string { return "step." + Token(node) + "." + from }

// SubjectSteps is all that a node's executor is asked about steps.
func SubjectSteps(node string) string { return SubjectStep(node, "*") }

// SubjectAsk asks any follower a question of one view.
func SubjectAsk(view string) string { return "ask." + Token(view) }

// SubjectAskNode asks what should run on a node.
func SubjectAskNode(name string) string { return "ask.node." + Token(name) }

// SubjectStanding is where those who follow the log say how far they have got: nudges, never truth.
const SubjectStanding = "ask.standing"

// SubjectBeats is every node's sign of life.
const SubjectBeats = "beat.*"

// SubjectBeat is a node's sign of life.
func SubjectBeat(node string) string { return "beat." + Token(node) }

const hexDigits = "0123456789ABCDEF"

// Token writes any name (host, user, partition) as one token of a subject: letters, digits, '-' and '_' stand for
// themselves, every other byte is %XX, and the empty name is a single '%'. Different names give different tokens.
func Token(s string) string {
	if s == "" {
		return "%"
	}
	plain := true
	for i := 0; i < len(s) && plain; i++ {
		plain = plainByte(s[i])
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c := s[i]; plainByte(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}

func plainByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// Untoken gives the name that Token wrote. A token that Token never writes is an error: two spellings of one name would be
// two authors.
func Untoken(t string) (string, error) {
	if t == "%" {
		return "", nil
	}
	if t == "" {
		return "", fmt.Errorf("an empty token of a subject names nothing")
	}
	if !strings.Contains(t, "%") {
		for i := 0; i < len(t); i++ {
			if !plainByte(t[i]) {
				return "", fmt.Errorf("token %q of a subject has an unescaped byte at %d", t, i)
			}
		}
		return t, nil
	}
	b := make([]byte, 0, len(t))
	for i := 0; i < len(t); i++ {
		if t[i] != '%' {
			b = append(b, t[i])
			continue
		}
		if i+2 >= len(t) {
			return "", fmt.Errorf("token %q of a subject ends within an escape", t)
		}
		hi, lo := strings.IndexByte(hexDigits, t[i+1]), strings.IndexByte(hexDigits, t[i+2])
		if hi < 0 || lo < 0 {
			return "", fmt.Errorf("token %q of a subject has a bad escape at %d", t, i)
		}
		b = append(b, byte(hi<<4|lo))
		i += 2
	}
	if s := string(b); Token(s) == t {
		return s, nil
	}
	return "", fmt.Errorf("token %q of a subject is not how that name is written", t)
}
