package slurm

import (
	"strings"
	"unicode"
)

// Kinds of mail, the bits of JobSpec.mail_types.
const (
	MailBegin uint32 = 1 << iota
	MailEnd
	MailFail
	MailRequeue
	MailTimeLimit
	MailTimeLimit90
	MailTimeLimit80
	MailTimeLimit50
	MailStageOut
	MailArrayTasks
	MailInvalidDepend
)

const mailAll = MailInvalidDepend | MailBegin | MailEnd | MailFail | MailRequeue | MailStageOut

// In the order Slurm prints them.
var mailKinds = []struct {
	word string
	bits uint32
}{
	{"ARRAY_TASKS", MailArrayTasks}, {"INVALID_DEPEND", MailInvalidDepend}, {"BEGIN", MailBegin}, {"END", MailEnd}, {"FAIL", MailFail},
	{"REQUEUE", MailRequeue}, {"STAGE_OUT", MailStageOut}, {"TIME_LIMIT_50", MailTimeLimit50}, {"TIME_LIMIT_80", MailTimeLimit80},
	{"TIME_LIMIT_90", MailTimeLimit90}, {"TIME_LIMIT", MailTimeLimit},
}

// ParseMail reads the value of --mail-type: kinds joined by commas, in any case; NONE for none.
func ParseMail(value string) (bits uint32, err error) {
	words := []string{"NONE", "ALL"}
	for _, k := range mailKinds {
		words = append(words, k.word)
	}
next:
	for _, w := range strings.Split(value, ",") {
		switch w = strings.ToUpper(w); w {
		case "NONE":
			bits = 0
			continue
		case "ALL":
			bits |= mailAll
			continue
		}
		for _, k := range mailKinds {
			if k.word == w {
				bits |= k.bits
				continue next
			}
		}
		return 0, usage("%s is not a kind of mail: known are %s%s", clip(w), strings.Join(words, ", "), mean(w, words))
	}
	return bits, nil
}

// CheckMailUser refuses what a mail program may take for something else than addresses (joined by commas). The controller starts
// that program, often as root: what begins with a minus would be an option of it, with | a command, and what holds a slash or
// begins with + a file that it writes to.
func CheckMailUser(option, value string) error {
	if value == "" {
		return nil
	}
	for _, a := range strings.Split(value, ",") {
		odd := a == "" || strings.ContainsAny(a, "/|\\`$!;&<>\"'(){}") ||
			strings.ContainsFunc(a, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar })
		if !odd {
			first := []rune(a)[0]
			odd = !unicode.IsLetter(first) && !unicode.IsDigit(first) && first != '_'
		}
		if odd {
			return usage("%s is not a mail address for %s: write USER or USER@HOST, several joined by commas", clip(a), option)
		}
	}
	return nil
}

// FormatMail is the kinds as Slurm prints them, empty for none.
func FormatMail(bits uint32) string {
	var words []string
	for _, k := range mailKinds {
		if bits&k.bits != 0 {
			words = append(words, k.word)
		}
	}
	return strings.Join(words, ",")
}
