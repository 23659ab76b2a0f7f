package conf

import (
	"fmt"
	"strconv"
	"strings"

	"stint/executor/tasks"
)

// Keys about steps. Nodes read them out of the settings of the configuration; here they are only looked at.

// checked looks whether a value is a number from lo to hi.
func checked(lo, hi uint64) func(*builder, string) error {
	return func(b *builder, v string) error {
		if n, err := strconv.ParseUint(v, 10, 64); err != nil || n < lo || n > hi {
			return fmt.Errorf("%q is not a number from %d to %d", clip(v), lo, hi)
		}
		return nil
	}
}

// mpiDefault takes what --mpi does, but for the list.
func mpiDefault(b *builder, v string) error {
	switch strings.ToLower(v) {
	case "", "none", "openmpi", "pmi2", "pmix", "pmix_v2", "pmix_v3", "pmix_v4", "pmix_v5":
		return nil
	}
	return fmt.Errorf("%q is no MPI that is known: it is none, pmi2 or pmix", clip(v))
}

func portRange(b *builder, v string) error {
	if _, _, ok := tasks.PortRange(v); !ok && v != "" && v != "(null)" {
		return fmt.Errorf("%q is no range of ports: one is FROM-TO, such as 60001-63000", clip(v))
	}
	return nil
}

// programPath looks whether a value names a program by its full path, or none.
func programPath(b *builder, v string) error {
	switch {
	case v == "", v == "(null)", strings.EqualFold(v, "none"), strings.HasPrefix(v, "/"):
		return nil
	}
	return fmt.Errorf("%q is no full path of a program", clip(v))
}
