package projections

import (
	"fmt"
	"testing"

	"stint/events"
	"stint/events/schema"
)

// A message says what is set in it; of what is one of several also nothing, and lists as often as they have elements.
func TestMessageText(t *testing.T) {
	none := (*events.Fact)(nil)
	for _, c := range []struct {
		m    fmt.Stringer
		text string
	}{
		{none, "<nil>"},
		{&events.Owner{}, ""},
		{&events.Owner{Uid: 7, User: "a \"b\"", Groups: []uint32{1, 2}}, `uid:7 user:"a \"b\"" groups:1 groups:2`},
		{&events.Intent{Verb: events.Verb_SUBMIT, Body: []byte("x\x00")}, `verb:SUBMIT body:"x\x00"`},
		{&events.Fact{Kind: &events.Fact_Held{Held: &events.Held{}}}, "held:{}"},
		{events.Verb(99), "99"},
	} {
		if got := c.m.String(); got != c.text {
			t.Errorf("%T says\n%s\nnot\n%s", c.m, got, c.text)
		}
	}
}

// Plain structs are found by their schema: fields, what is one of several, names of values.
func TestMessageSchema(t *testing.T) {
	m := &events.Fact{Kind: &events.Fact_PartitionChanged{PartitionChanged: &events.PartitionChanged{Act: events.PartitionAct_PARTITION_CHANGE, Partition: &events.PartitionDef{Name: "p"}}}}
	text, err := schema.JSON(m)
	if err != nil {
		t.Fatal(err)
	}
	var compact []byte
	for _, c := range text {
		if c != ' ' {
			compact = append(compact, c)
		}
	}
	if want := `{"partition_changed":{"act":"PARTITION_CHANGE","partition":{"name":"p"}}}`; string(compact) != want {
		t.Errorf("as JSON: %s, not %s", compact, want)
	}
	d := &events.PartitionDef{}
	r := schema.Of(d)
	r.Set(r.Descriptor().Fields().ByName("qos"), schema.Of(&events.PartitionDef{Qos: "q"}).Get(r.Descriptor().Fields().ByName("qos")))
	if d.Qos != "q" || schema.Plain(r) != schema.Message(d) {
		t.Errorf("what was set through the schema is not in the message: %v", d)
	}
}
