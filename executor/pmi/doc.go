// Package pmi serves the Process Management Interface to the tasks of a step on one node: by it the ranks of an MPI program learn
// who they are, and tell each other how they are reached. Versions 1 and 2 of the wire protocol are spoken, over a descriptor that
// each task inherits (PMI_FD); a task's first line says which one it wants.
//
// What the tasks of a node have put comes to those of other nodes at a fence, all at once: package pmi gathers the puts of its
// tasks, hands them to Fence, and goes on with what the whole step has put. It opens nothing and waits for nothing but its tasks.
//
// Sources: "PMI v2 API" and "PMI-1 wire protocol" of the MPICH project's wiki; libpmi2 as its clients use it.
package pmi
