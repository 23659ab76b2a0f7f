package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"stint/cli/commands"
)

// program returns what a Slurm name is to be linked to: the lightest that lies beside this program and has the command (stint-sbatch has
// sbatch, stint-cli all), else this program itself.
func program(name string) (string, error) {
	self, err := self()
	if err != nil {
		return "", err
	}
	for _, light := range []string{"stint-" + name, "stint-cli"} {
		path := filepath.Join(filepath.Dir(self), light)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return self, nil
}

// link makes the Slurm names in dir point to this installation.
func link(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the directory for the links: %w", err)
	}
	for _, name := range commands.Names() {
		target, err := program(name)
		if err != nil {
			return err
		}
		if err := linkAs(filepath.Join(dir, name), target); err != nil {
			return err
		}
	}
	return nil
}

// linkAs makes path a link to target, at once.
func linkAs(path, target string) error {
	old, err := os.Readlink(path)
	switch {
	case err == nil && old == target:
		return nil
	case err == nil:
	case errors.Is(err, fs.ErrNotExist):
	default:
		return fmt.Errorf("%s is there and is not a link: move it away first", path)
	}
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.Symlink(target, fresh); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		os.Remove(fresh)
		return err
	}
	return nil
}

// self is this program's own file.
func self() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	return path, nil
}

func linksCommand() *cli.Command {
	return &cli.Command{
		Name: "links", Usage: "put links with Slurm's command names into a directory", ArgsUsage: "DIR",
		Category:    running,
		Description: "The names are " + strings.Join(commands.Names(), ", ") + ".\n\nExample: stint links /usr/local/bin",
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return errors.New("say into which directory: stint links /usr/local/bin")
			}
			return link(c.Args().First())
		},
	}
}

func envCommand() *cli.Command {
	return &cli.Command{
		Name: "env", Usage: "print shell commands that put Slurm's command names on PATH", Flags: []cli.Flag{dirFlag()},
		Category:    running,
		Description: "Example: eval \"$(stint env)\"",
		Action: func(c *cli.Context) error {
			dir, err := dirOf(c)
			if err != nil {
				return err
			}
			if !exists(string(dir)) {
				return fmt.Errorf("there is no cluster in %s: `stint up` makes one, --dir or STINT_DIR says where it is", dir)
			}
			bin, err := binDir(string(dir))
			if err != nil {
				return err
			}
			fmt.Fprintf(c.App.Writer, "export STINT_DIR=%s\nexport PATH=%s:\"$PATH\"\n", quote(string(dir)), quote(bin))
			return nil
		},
	}
}

// binDir returns a directory with the links, and stint's own: in the cluster's if it may be written, else one of the user's.
func binDir(dir string) (string, error) {
	fill := func(bin string) error {
		if err := link(bin); err != nil {
			return err
		}
		target, err := self()
		if err != nil {
			return err
		}
		return linkAs(filepath.Join(bin, "stint"), target)
	}
	bin := filepath.Join(dir, "bin")
	err := fill(bin)
	if err == nil {
		return bin, nil
	}
	if _, there := os.Stat(filepath.Join(bin, "sbatch")); there == nil {
		return bin, nil
	}
	cache, cerr := os.UserCacheDir()
	if cerr != nil {
		return "", err
	}
	bin = filepath.Join(cache, "stint", "bin")
	return bin, fill(bin)
}

// quote writes a word as a shell reads it back.
func quote(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:,@%=", r))
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
