package mem_test

import (
	"testing"

	"stint/events/bus"
	"stint/events/bus/bustest"
	"stint/events/bus/mem"
)

func TestContract(t *testing.T) {
	hub := mem.New(mem.Options{})
	bustest.Run(t, func(t testing.TB) bus.Bus {
		c := hub.Connect(t.Name())
		t.Cleanup(func() { c.Close() })
		return c
	})
}
