package site

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"

	"stint/cli/slurm/conf"
	"stint/events"
)

// ReadConf reads a site's slurm.conf and what lies beside it. A key that cannot be honoured is an error; what is to be said
// about others comes back as notes. Whoever runs the cluster, owner, is one of its administrators.
func ReadConf(path string, owner uint32) (c *events.Config, notes []string, err error) {
	r, err := conf.Load(path, os.ReadFile)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the configuration: %w", err)
	}
	if err := r.Refusal(); err != nil {
		return nil, nil, fmt.Errorf("the configuration asks for what Stint does not do:\n%w", err)
	}
	notes = append(notes, r.Warnings...)
	admins := []uint32{0, owner}
	for _, name := range r.Config.Admins { // questions come with numbers only
		if u, err := user.Lookup(name); err == nil {
			if uid, err := strconv.ParseUint(u.Uid, 10, 32); err == nil {
				admins = append(admins, uint32(uid))
			}
		}
	}
	for _, uid := range admins {
		if !slices.Contains(r.Config.AdminUids, uid) {
			r.Config.AdminUids = append(r.Config.AdminUids, uid)
		}
	}
	return r.Config, notes, nil
}

// Remarks says of each key of a site's configuration that is not simply honoured what becomes of it, and what looks like
// a mistake.
func Remarks(path string) (notes, warnings []string, err error) {
	r, err := conf.Load(path, os.ReadFile)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the configuration: %w", err)
	}
	for _, n := range r.Notes {
		notes = append(notes, n.String())
	}
	return notes, r.Warnings, nil
}
