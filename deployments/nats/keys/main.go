// Command keys makes the key files of roles on the bus and prints the users block for the configuration of the
// servers, which holds public keys and subjects only.
//
//	keys -dir DIR ROLE...
//
// A role that has a key keeps it. The block names every role with a key in DIR, those of earlier calls too.
package main

import (
	"flag"
	"fmt"
	"os"

	"stint/events/bus"
	"stint/events/bus/server"
)

func main() {
	dir := flag.String("dir", "", "folder of the key files")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: keys -dir DIR ROLE...\nroles: admin, controller, ledger, executor:NODE, agent:HOST, service, service:USER")
	}
	flag.Parse()
	if *dir == "" {
		flag.Usage()
		os.Exit(2)
	}
	users, err := usersOf(*dir, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "keys:", err)
		os.Exit(1)
	}
	fmt.Print(users)
}

// usersOf makes the missing keys of the roles and returns the block.
func usersOf(dir string, roles []string) (string, error) {
	keys, err := server.OpenKeys(dir)
	if err != nil {
		return "", err
	}
	for _, text := range roles {
		role, err := bus.ParseRole(text)
		if err != nil {
			return "", err
		}
		if _, err := keys.Seed(role); err != nil {
			return "", err
		}
	}
	return keys.Users()
}
