// Command stint-cli is the commands that users call, and nothing else: one round trip on the agent's socket. It is linked
// with none of what daemons need, since a shell loop that submits a thousand jobs pays for each start of it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"stint/cli/brief"
	"stint/cli/commands"
	"stint/executor/tasks"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == tasks.Command {
		brief.Long()
		os.Exit(tasks.Main())
	}
	if tasks.IsBatch(os.Args) {
		brief.Long()
		os.Exit(tasks.BatchMain(os.Args))
	}
	debug.SetGCPercent(400) // it ends soon: time is worth more than memory
	name, args := filepath.Base(os.Args[0]), os.Args[1:]
	if !commands.Has(name) && len(args) > 0 {
		name, args = args[0], args[1:]
	}
	if !commands.Has(name) {
		fmt.Fprintf(os.Stderr, "stint-cli: call it by the name of a command, or with one as its first word: %s\n", strings.Join(commands.Names(), ", "))
		os.Exit(1)
	}
	if commands.Stays(name) {
		brief.Long()
	}
	os.Exit(commands.Run(name, args, commands.Process()))
}
