package cli

import (
	"strings"
	"testing"
)

func TestBusElsewhere(t *testing.T) {
	for text, want := range map[string]string{
		"nats://a:4222": "nats://a:4222",
		"nats://a:4222, nats://b:4222,tls://c:4222": "nats://a:4222,nats://b:4222,tls://c:4222",
		"nats://a:4222,nats://b:4222":               "error: --bus names 2 servers: name one, three or five",
		"":                                          `error: --bus: "" is not the address of a server`,
		"a:4222":                                    `error: --bus: "a:4222" is not the address of a server`,
		"http://a:4222":                             `error: --bus: "http://a:4222" is not the address of a server`,
	} {
		got, err := busElsewhere(text)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want && !(err != nil && strings.HasPrefix(got, want)) {
			t.Errorf("--bus %q is read as %q, want %q", text, got, want)
		}
	}
}
