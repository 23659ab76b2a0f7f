package executor

import (
	"testing"
	"time"
)

func TestRate(t *testing.T) {
	c := newCluster(t, "n1", "n2", "n3", "n4")
	begin := time.Now()
	var ids []uint32
	for range 400 {
		ids = append(ids, c.submit("exit 0"))
	}
	t.Log("submitted", time.Since(begin))
	for _, id := range ids {
		c.ended(id)
	}
	t.Logf("%.0f jobs/s", 400/time.Since(begin).Seconds())
}
