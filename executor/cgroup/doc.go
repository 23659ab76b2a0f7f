// Package cgroup keeps the processes of each job together and within their allocation, by Linux control groups: one
// interface over version 1, hybrid and version 2 hosts.
//
// Open gives the Tree of a node; Create makes the group of a step (and of its job) with its limits; Launch starts a process
// that is in the group from its first instruction; Kill, Freeze and Stats act on all of a group's processes, however they
// forked. List finds what a crash left behind. What a host cannot enforce is said once, as Gaps.
package cgroup
