package pmi

import (
	"fmt"
	"strconv"
	"strings"
)

// Version 1: lines of `cmd=WORD name=value …`, each answered by one. Values have no blanks, but for the last one of a put.

// fieldsOf reads the words of a line.
func fieldsOf(text string) map[string]string {
	f := map[string]string{}
	for rest := strings.TrimSpace(text); rest != ""; {
		name, after, ok := strings.Cut(rest, "=")
		if !ok {
			break
		}
		name = strings.TrimSpace(name)
		value := after
		if name == "value" { // the last one, and it may have blanks
			f[name] = value
			break
		}
		value, rest, _ = strings.Cut(after, " ")
		f[name] = value
	}
	return f
}

// one speaks with a client of version 1 until it is done.
func (t *talk) one() error {
	s := t.s
	for {
		text, err := line(t.r)
		if err != nil {
			return err
		}
		f := fieldsOf(text)
		if f["mcmd"] != "" { // spawn comes in several lines
			for !strings.HasPrefix(text, "endcmd") {
				if text, err = line(t.r); err != nil {
					return err
				}
			}
			t.reply("cmd=spawn_result rc=-1 errcodes=-1\n")
			continue
		}
		switch f["cmd"] {
		case "get_maxes":
			t.reply(fmt.Sprintf("cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d\n", maxName, maxKey, maxValue))
		case "get_appnum":
			t.reply("cmd=appnum appnum=0\n")
		case "get_my_kvsname":
			t.reply("cmd=my_kvsname kvsname=" + s.job.ID + "\n")
		case "get_universe_size":
			t.reply("cmd=universe_size size=" + strconv.Itoa(s.job.Universe) + "\n")
		case "get_ranks2hosts":
			t.reply("cmd=ranks2hosts rc=-1\n")
		case "put":
			if err := s.putPair(f["key"], f["value"]); err != nil {
				t.reply("cmd=put_result rc=-1 msg=" + word(err) + "\n")
				continue
			}
			t.reply("cmd=put_result rc=0 msg=success\n")
		case "get":
			v, ok := s.get(f["key"])
			if !ok {
				v, ok = s.attribute(f["key"])
			}
			if !ok {
				t.reply("cmd=get_result rc=-1 msg=key_not_found value=unknown\n")
				continue
			}
			t.reply("cmd=get_result rc=0 msg=success value=" + v + "\n")
		case "barrier_in":
			s.fence(t.rank, func(err error) {
				if err != nil {
					t.reply("cmd=barrier_out rc=-1 msg=" + word(err) + "\n")
					return
				}
				t.reply("cmd=barrier_out rc=0\n")
			})
		case "publish_name", "unpublish_name", "lookup_name":
			t.reply("cmd=" + strings.TrimSuffix(f["cmd"], "_name") + "_result rc=-1 info=not_supported port=none\n")
		case "finalize":
			t.reply("cmd=finalize_ack rc=0\n")
			return errFinalized
		case "abort":
			code, err := strconv.Atoi(f["exitcode"])
			if err != nil {
				code = 1
			}
			s.Abort(t.rank, code, f["error_msg"])
		default:
			return fmt.Errorf("task %d: what it asks by PMI is not known: %s", t.rank, clip(text))
		}
	}
}

// word is an error as a value without blanks.
func word(err error) string { return strings.ReplaceAll(err.Error(), " ", "_") }
