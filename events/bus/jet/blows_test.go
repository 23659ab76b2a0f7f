package jet_test

import (
	"os"
	"strconv"
	"syscall"
	"testing"

	"stint/events/bus"
	"stint/events/bus/bustest"
)

// kill kills the server that leads the log and starts it again when the others have gone on without it.
func (c *cluster) killBlow() bustest.Blow {
	var victim *node
	return bustest.Blow{
		Name: "kill -9 of the leader",
		Strike: func(t testing.TB) {
			victim = c.leader(t, true)
			victim.kill()
			if len(c.nodes) == 1 {
				victim.start(t) // nobody else to go on
			}
		},
		Mend: func(t testing.TB) {
			if len(c.nodes) > 1 {
				victim.start(t)
			}
			c.leader(t, true)
		},
	}
}

// pauseBlow stops the server that leads until another leads; when it wakes it still believes it does.
func (c *cluster) pauseBlow() bustest.Blow {
	var victim *node
	return bustest.Blow{
		Name: "the leader sleeps",
		Strike: func(t testing.TB) {
			victim = c.leader(t, true)
			victim.signal(t, syscall.SIGSTOP)
		},
		Mend: func(t testing.TB) {
			victim.signal(t, syscall.SIGCONT)
			c.leader(t, true)
		},
	}
}

// planBlow stops the server that leads as its unit does: leadership is handed over first.
func (c *cluster) planBlow() bustest.Blow {
	var victim *node
	return bustest.Blow{
		Name: "a planned stop of the leader",
		Strike: func(t testing.TB) {
			victim = c.leader(t, true)
			victim.signal(t, syscall.SIGUSR2)
		},
		Mend: func(t testing.TB) {
			victim.kill() // it would stay for half a minute to let its clients move
			victim.start(t)
			c.leader(t, true)
		},
	}
}

func TestThreeServersUnderBlows(t *testing.T) {
	whole(t)
	c := startCluster(t, 3)
	blows := []bustest.Blow{c.killBlow(), c.pauseBlow(), c.planBlow()}
	for n := soak(t); n > 0; n-- {
		blows = append(blows, c.killBlow(), c.pauseBlow(), c.planBlow())
	}
	bustest.RunBlows(t, func(t testing.TB) bus.Bus { return c.connect(t) }, blows...)
}

func TestOneServerUnderBlows(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped because of -short: kills a server again and again")
	}
	c := startCluster(t, 1)
	blows := []bustest.Blow{c.killBlow(), c.killBlow(), c.killBlow()}
	for n := soak(t); n > 0; n-- {
		blows = append(blows, c.killBlow())
	}
	bustest.RunBlows(t, func(t testing.TB) bus.Bus { return c.connect(t) }, blows...)
}

// soak returns how many more rounds STINT_SOAK asks for.
func soak(t *testing.T) int {
	text := os.Getenv("STINT_SOAK")
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("STINT_SOAK=%s: give a number of rounds", text)
	}
	return n
}
