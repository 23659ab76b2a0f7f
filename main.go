// Command stint is the whole of Stint in one binary: a workload manager that speaks Slurm and keeps
// everything it knows in an event log. The name it is called by decides what it does; see package cli.
package main

import (
	"os"

	"stint/cli"
)

func main() { os.Exit(cli.Main(os.Args)) }
