"""`penstock completions`: a script that completes the command line in a shell."""

from __future__ import annotations

import argparse

from penstock.cli import OK
from penstock.cli.terminal import Terminal

SHELLS = ("bash", "zsh", "fish")

_USAGE = "penstock completions bash|zsh|fish"

_DESCRIPTION = """\
Print a script with which a shell completes commands, options, their values and
file names when you press Tab. Write it to a file that the shell reads, and
start a new shell. After an update of Penstock, write it again."""

_EPILOG = """\
bash, with the package bash-completion:
  mkdir -p ~/.local/share/bash-completion/completions
  penstock completions bash \\
      > ~/.local/share/bash-completion/completions/penstock
bash, without it:
  penstock completions bash > ~/.penstock-completion.bash
  echo 'source ~/.penstock-completion.bash' >> ~/.bashrc
zsh, with these lines in ~/.zshrc: fpath=(~/.zfunc $fpath)
                                   autoload -Uz compinit && compinit
  mkdir -p ~/.zfunc
  penstock completions zsh > ~/.zfunc/_penstock
fish:
  mkdir -p ~/.config/fish/completions
  penstock completions fish > ~/.config/fish/completions/penstock.fish

exit codes:
  0  the script was printed
  2  wrong options"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def run(options: argparse.Namespace) -> int:
    from penstock.cli.completions.bash import bash_script  # imported here to keep --help fast
    from penstock.cli.completions.command_words import all_commands
    from penstock.cli.completions.fish import fish_script
    from penstock.cli.completions.zsh import zsh_script

    scripts = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
    Terminal().line(scripts[options.shell](all_commands()))
    return OK
