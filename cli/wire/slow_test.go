package wire

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stint/events"
	"stint/ledger/rows"
	"stint/projections"
)

// An answer that is slow to come is told of after three seconds and then every thirty, in the words that belong to the request
// and to how far it is; one that comes in time, or was asked to wait, is not.
func TestSlow(t *testing.T) {
	submit := &Request{What: &Request_Submit{Submit: &Submit{}}}
	control := &Request{What: &Request_Control{Control: &Control{Verb: events.Verb_CANCEL}}}
	nodes := &Request{What: &Request_Ask{Ask: &projections.Ask{What: &projections.Ask_Nodes{Nodes: &projections.AskNodes{}}}}}
	waits := &Request{What: &Request_Ask{Ask: &projections.Ask{What: &projections.Ask_Wait{Wait: &projections.AskWait{WaitMs: 60_000}}}}}
	story := &Request{What: &Request_Account{Account: &rows.Ask{What: &rows.Ask_Story{Story: &rows.AskStory{WaitMs: 30_000}}}}}
	answered := &Response{What: &Response_Welcome{Welcome: &Welcome{}}}
	type step struct {
		after time.Duration
		says  *Response
	}
	for name, c := range map[string]struct {
		req   *Request
		agent []step
		want  []string // at: the beginning of what is said
		fails string
	}{
		"in time":               {submit, []step{{2900 * time.Millisecond, answered}}, nil, ""},
		"submission":            {submit, []step{{70 * time.Second, answered}}, []string{"3s: the submission is on its way", "33s: the submission is on its way", "1m3s: the submission is on its way"}, ""},
		"kept in time":          {submit, []step{{time.Second, &Response{Kept: true}}, {4 * time.Second, answered}}, []string{"3s: the submission is in the log"}, ""},
		"kept after it is told": {submit, []step{{5 * time.Second, &Response{Kept: true}}, {31 * time.Second, answered}}, []string{"3s: the submission is on its way", "5s: the submission is in the log", "35s: the submission is in the log"}, ""},
		"act":                   {control, []step{{4 * time.Second, answered}}, []string{"3s: the request is on its way"}, ""},
		"question":              {nodes, []step{{4 * time.Second, answered}}, []string{"3s: there is no answer yet"}, ""},
		"question without end":  {nodes, nil, []string{"3s: there is no answer yet"}, "it may be stopped"},
		"the end of a job":      {waits, []step{{61 * time.Second, answered}}, nil, ""},
		"a story's next line":   {story, []step{{34 * time.Second, answered}}, []string{"33s: there is no answer yet"}, ""},
		"nobody answers":        {nodes, []step{{2 * time.Second, &Response{Note: "no controller"}}, {25 * time.Second, answered}}, []string{"2s: no controller"}, ""},
		"nobody takes it":       {control, []step{{2 * time.Second, &Response{Note: "no controller"}}, {40 * time.Second, answered}}, []string{"2s: no controller", "32s: no controller (after 32s)"}, ""},
		"nobody judges":         {submit, []step{{2 * time.Second, &Response{Note: "no controller"}}, {3 * time.Second, &Response{Kept: true}}, {time.Second, answered}}, []string{"2s: no controller"}, ""},
		"act without end":       {control, nil, nil, "not known"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				begun := time.Now()
				var said []string
				conn := &Conn{c: here, r: bufio.NewReader(here), Note: func(text string) {
					said = append(said, fmt.Sprintf("%s: %s", time.Since(begun), text))
				}}
				done := make(chan struct{})
				go func() {
					defer close(done)
					Read(bufio.NewReader(there), new(Request), MaxFrame)
					for _, s := range c.agent {
						time.Sleep(s.after)
						Write(there, s.says)
					}
				}()
				_, err := conn.Call(c.req)
				<-done
				conn.Close()
				there.Close()
				if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
					t.Fatalf("error %v, want %q", err, c.fails)
				}
				time.Sleep(time.Minute)
				if c.want == nil && c.fails != "" {
					return
				}
				if len(said) != len(c.want) {
					t.Fatalf("said %q\nwant %q", said, c.want)
				}
				for i := range said {
					if !strings.HasPrefix(said[i], c.want[i]) {
						t.Errorf("said %q\nwant %q", said[i], c.want[i])
					}
				}
			})
		})
	}
}
