"""Print a script that completes commands, flags and their values in a shell.

  masp completion bash > ~/.local/share/bash-completion/completions/masp
  masp completion zsh > ~/.zfunc/_masp         # a folder in $fpath
  masp completion fish > ~/.config/fish/completions/masp.fish

The script is plain text: completing starts no Python. Make it anew after an update of masp.
"""

from __future__ import annotations

import argparse
import importlib
import shlex
from dataclasses import dataclass

from masp.cli.main import COMMANDS


@dataclass(frozen=True)
class Flag:
    """One flag of a command."""

    name: str
    values: tuple[str, ...]
    """What may follow; empty: a file, a number or nothing."""
    takes_value: bool
    help: str


@dataclass(frozen=True)
class Command:
    """What can follow the name of a command."""

    name: str
    help: str
    words: tuple[str, ...]
    """Choices of its positional arguments, such as names of experiments."""
    flags: tuple[Flag, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell to write for")


def run(args: argparse.Namespace) -> int:
    commands = [_described(name) for name in COMMANDS]
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](commands), end="")
    return 0


def _described(name: str) -> Command:
    """The words and flags of a command, from its parser and the parsers of its own commands."""
    module_name, help_text = COMMANDS[name]
    parser = argparse.ArgumentParser(prog=f"masp {name}")
    importlib.import_module(module_name).add_arguments(parser)
    words: list[str] = []
    flags: dict[str, Flag] = {}
    for action in _actions(parser):
        values = tuple(str(value) for value in action.choices or ())
        text = " ".join((action.help or "").replace("%%", "%").split())
        if not action.option_strings:
            words += values
        for flag in action.option_strings:
            if flag.startswith("--"):
                flags[flag] = Flag(flag, values, action.nargs != 0, text.split(". ")[0][:90])
    return Command(name, help_text, tuple(dict.fromkeys(words)), tuple(flags.values()))


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """All arguments of a parser and of its sub-commands."""
    actions = []
    for action in parser._actions:
        actions.append(action)
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                actions += _actions(inner)
    return actions


_BASH = """\
# masp completion for bash
_masp() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words=%s
    else
        case "${COMP_WORDS[1]} $previous" in
%s        *)
            case "${COMP_WORDS[1]}" in
%s            esac ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _masp masp
"""


def _bash(commands: list[Command]) -> str:
    values = "".join(
        f"        {shlex.quote(f'{command.name} {flag.name}')}) words={shlex.quote(' '.join(flag.values))} ;;\n"
        for command in commands
        for flag in command.flags
        if flag.takes_value
    )
    words = "".join(
        f"            {command.name}) words={shlex.quote(' '.join([*command.words, *_names(command)]))} ;;\n"
        for command in commands
    )
    return _BASH % (shlex.quote(" ".join([*COMMANDS, "--help", "--version"])), values, words)


def _names(command: Command) -> list[str]:
    return [flag.name for flag in command.flags]


def _zsh(commands: list[Command]) -> str:
    """zsh runs the script for bash, which its bashcompinit is for."""
    head = "#compdef masp\nautoload -U +X compinit bashcompinit\n(( $+functions[compdef] )) || compinit\nbashcompinit\n"
    return head + _bash(commands)


def _fish(commands: list[Command]) -> str:
    lines = ["# masp completion for fish"]
    for command in commands:
        lines.append(f"complete -c masp -n __fish_use_subcommand -f -a {command.name} -d {_fish_quoted(command.help)}")
        seen = f"complete -c masp -n '__fish_seen_subcommand_from {command.name}'"
        if command.words:
            lines.append(f"{seen} -a {_fish_quoted(' '.join(command.words))}")
        for flag in command.flags:
            argument = f" -xa {_fish_quoted(' '.join(flag.values))}" if flag.values else " -r" * flag.takes_value
            lines.append(f"{seen} -l {flag.name[2:]}{argument} -d {_fish_quoted(flag.help)}")
    return "\n".join(lines) + "\n"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
