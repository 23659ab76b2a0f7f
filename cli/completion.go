package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"stint/cli/commands"
)

// The options of Slurm's names are taken from their own --help, so that what is offered is what the cluster's release has.
const helpOptions = `sed -nE 's/^ +(-[^ ], )?(--[a-z0-9-]+=?).*/\2/p'`

const bashCompletion = `_stint_options() { "$@" --help 2>/dev/null | ` + helpOptions + `; }
_stint_slurm() {
  COMPREPLY=($(compgen -W "$(_stint_options "$1")" -- "$2"))
  if [[ ${COMPREPLY[0]-} == *= ]]; then compopt -o nospace 2>/dev/null; fi
}
_stint() {
  local words=("${COMP_WORDS[@]:0:COMP_CWORD}") cur="${COMP_WORDS[COMP_CWORD]}" more=()
  if [[ " NAMES " == *" ${COMP_WORDS[1]-} "* && COMP_CWORD -gt 1 ]]; then
    COMPREPLY=($(compgen -W "$(_stint_options "${COMP_WORDS[@]:0:2}")" -- "$cur"))
    return
  fi
  if [[ $cur == -* ]]; then more=("$cur"); fi
  COMPREPLY=($(compgen -W "$("${words[@]}" "${more[@]}" --generate-bash-completion 2>/dev/null)" -- "$cur"))
}
complete -o bashdefault -o default -F _stint stint
complete -o bashdefault -o default -F _stint_slurm NAMES
`

const zshCompletion = `#compdef stint NAMES
_stint_options() { "$@" --help 2>/dev/null | ` + helpOptions + `; }
_stint_slurm() {
  local -a opts
  if [[ $PREFIX == -* ]]; then
    opts=("${(@f)$(_stint_options $words[1])}")
    compadd -S '' -- $opts
  else
    _files
  fi
}
_stint() {
  local -a opts more
  if (( CURRENT > 2 )) && [[ " NAMES " == *" $words[2] "* ]]; then
    opts=("${(@f)$(_stint_options $words[1] $words[2])}")
    compadd -S '' -- $opts || _files
    return
  fi
  if [[ $PREFIX == -* ]]; then more=($PREFIX); fi
  opts=("${(@f)$(${words[1,CURRENT-1]} $more --generate-bash-completion 2>/dev/null)}")
  compadd -- ${opts%%:*} || _files
}
compdef _stint stint
compdef _stint_slurm NAMES
`

const fishCompletion = `function __stint_options
  $argv --help 2>/dev/null | ` + helpOptions + `
end
for name in NAMES
  complete -c $name -n 'string match -q -- "-*" (commandline -ct)' -a "(__stint_options $name)"
end
`

func completionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print completion for a shell", ArgsUsage: "bash|zsh|fish", Category: running,
		Description: "It completes stint, its commands and their options, and the options of Slurm's names.\n\nExamples: source <(stint completion bash)\n" +
			"          stint completion fish > ~/.config/fish/completions/stint.fish",
		Action: func(c *cli.Context) error {
			text := ""
			switch c.Args().First() {
			case "bash":
				text = bashCompletion
			case "zsh":
				text = zshCompletion
			case "fish":
				stint, err := c.App.ToFishCompletion()
				if err != nil {
					return err
				}
				text = stint + fishCompletion
			default:
				return errors.New("say for which shell: stint completion bash, zsh or fish")
			}
			fmt.Fprint(c.App.Writer, strings.ReplaceAll(text, "NAMES", strings.Join(commands.Names(), " ")))
			return nil
		},
	}
}
