// Command stint-srun is srun, and what a node starts for a step or a script, and nothing else: a job may start thousands of steps. The linker
// leaves out what the other commands need, whose tables each start would enter and whose pages it would touch.
package main

import (
	"os"
	"path/filepath"
	"runtime/debug"

	"stint/cli/brief"
	"stint/cli/commands"
	"stint/executor/tasks"
)

func main() {
	brief.Long()
	if filepath.Base(os.Args[0]) != "srun" { // by that name people call it
		switch {
		case len(os.Args) == 2 && os.Args[1] == tasks.Command:
			os.Exit(tasks.Main())
		case tasks.IsBatch(os.Args):
			os.Exit(tasks.BatchMain(os.Args))
		}
	}
	debug.SetGCPercent(400) // it ends soon: time is worth more than memory
	os.Exit(commands.Srun(os.Args[1:], commands.Process()))
}
