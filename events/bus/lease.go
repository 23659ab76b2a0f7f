package bus

import (
	"context"
	"errors"
	"time"
)

// AwaitLease takes the lease as soon as it is free, asking four times within each ttl until ctx ends. Errors
// of the bus are waited out: the bus being away is a reason to go on waiting.
func AwaitLease(ctx context.Context, l Leases, name, holder string, ttl time.Duration) (Lease, error) {
	for {
		lease, err := l.Take(ctx, name, holder, ttl)
		if err == nil {
			return lease, nil
		}
		if errors.Is(err, ErrDenied) || errors.Is(err, ErrClosed) || errors.Is(err, ErrSubject) {
			return nil, err
		}
		if err := pause(ctx, ttl/4); err != nil {
			return nil, err
		}
	}
}

// KeepLease renews the lease three times within each ttl and returns when it is lost (ErrLeaseLost, also when
// it could not be renewed for a whole ttl) or ctx ends (its error; the lease is then kept for what is left). again, if any, is
// called after each renewal.
func KeepLease(ctx context.Context, l Lease, ttl time.Duration, again func()) error {
	renewed := time.Now()
	for {
		if err := pause(ctx, ttl/3); err != nil {
			return err
		}
		attempt, cancel := context.WithTimeout(ctx, ttl/3)
		asked := time.Now()
		err := l.Renew(attempt)
		cancel()
		switch {
		case err == nil:
			renewed = asked
			if again != nil {
				again()
			}
		case errors.Is(err, ErrLeaseLost), time.Since(renewed) > ttl:
			return errors.Join(ErrLeaseLost, err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
