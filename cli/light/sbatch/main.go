// Command stint-sbatch is sbatch and nothing else: what a loop starts a thousand times. The linker leaves out what the other commands
// need, whose tables each start would enter and whose pages it would touch.
package main

import (
	"os"
	"runtime/debug"

	_ "stint/cli/brief"
	"stint/cli/commands"
)

func main() {
	debug.SetGCPercent(400) // it ends soon: time is worth more than memory
	os.Exit(commands.Sbatch(os.Args[1:], commands.Process()))
}
