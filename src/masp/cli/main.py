"""The `masp` command: finds the module of a sub-command, runs it, turns user mistakes into one line.

A sub-command is a module with `add_arguments(parser)` and `run(args)`; it is imported only when it is called, so
`masp --help` answers at once.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

import masp
from masp.errors import LineWarning, UserCodeError, UserError, did_you_mean
from masp.printable import printable, printable_lines

COMMANDS: dict[str, tuple[str, str]] = {
    # name: (module, help)
    "demo": ("masp.cli.demo", "three agents on two small tasks: a table, curves and a page in minutes"),
    "train": ("masp.cli.train", "train an agent and write a run directory"),
    "sweep": ("masp.cli.sweep", "train every combination of some settings, in one program where possible"),
    "tune": ("masp.cli.tune", "search for better settings, with several seeds per trial"),
    "eval": ("masp.cli.eval", "play a trained agent and report its score"),
    "reproduce": ("masp.cli.reproduce", "run an experiment of the paper, at a scale of your choice"),
    "table": ("masp.cli.table", "print an experiment's results beside the paper's figures"),
    "report": ("masp.cli.report", "one HTML page about runs: curves, similarity, macros, what the penalty does"),
    "watch": ("masp.cli.watch", "the same page live, while runs train"),
    "results": ("masp.cli.results", "list what the results store holds"),
    "plot": ("masp.cli.plot", "draw metrics of runs as curves, seeds as bands"),
    "similarity": ("masp.cli.similarity", "look at a learned similarity, or export it for another task"),
    "push": ("masp.cli.push", "share macros and similarity in a Hugging Face repository or a folder"),
    "pull": ("masp.cli.pull", "fetch macros and similarity that somebody shared"),
    "bench": ("masp.cli.bench", "measure speed, as ratios inside one run"),
    "envs": ("masp.cli.envs", "list what can be trained on, what is missing and how to install it"),
    "record": ("masp.cli.record", "play an environment and record it"),
    "mine": ("masp.cli.mine", "find macros in recorded play"),
    "macros": ("masp.cli.macros", "look at a macro file, or add noise to it"),
    "completion": ("masp.cli.completion", "print a script that completes this command in a shell"),
}


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, with the most similar right spelling or the command that explains it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {printable(message)} (see '{self.prog} --help')\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is sys.stdout:
            file.write(message)  # argparse hides that output cannot be written
        else:
            super()._print_message(message, file)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        sys.stdout.flush()
        super().exit(status, message)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As usual, but an unknown flag is named alone, with the flags that resemble it."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if not unknown:
            return parsed
        name = unknown[0].partition("=")[0]
        if not name.startswith("-"):
            self.error(f"unexpected argument {name!r}")
        hint = did_you_mean(name, self._flags())
        self.error(f"there is no flag {name}" + (f"; {hint}" if hint else ""))

    def _flags(self) -> list[str]:
        """All flags, those of sub-commands included."""
        flags = list(self._option_string_actions)
        for action in self._actions:
            for parser in action.choices.values() if isinstance(action, argparse._SubParsersAction) else ():
                flags += parser._flags()
        return flags

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = list(map(str, action.choices))
            hint = did_you_mean(str(value), names, f"choose one of {', '.join(names)}")
            what = f"{action.option_strings[0]} cannot be" if action.option_strings else "there is no"
            raise argparse.ArgumentError(None, f"{what} {value!r}; {hint}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code: 0 fine, 1 failed, 2 bad usage, 128 + number after a signal."""
    argv = list(sys.argv[1:] if argv is None else argv)
    _open_closed_streams()
    name = f"masp {argv[0]}" if argv and argv[0] in COMMANDS else "masp"
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            command, args = _parsed(argv)
            code = int(command.run(args) or 0) if command else 2
            sys.stdout.flush()  # output that cannot be written is an error of this command
            return code
        except UserError as error:
            return _failed(
                name, str(error), error.exit_code, error.__cause__ if isinstance(error, UserCodeError) else None
            )
        except KeyboardInterrupt as stop:
            return _failed(name, str(stop) or "stopped", getattr(stop, "exit_code", 130))
        except BrokenPipeError:  # the reader of our output went away, as `masp ... | head` does
            _discard_output()
            return 1
        except OSError as error:  # the system refused; a path that cannot be meant is a `UserError`
            place = f"{error.filename}: " if error.filename is not None else ""
            return _failed(name, f"{place}{error.strerror or error}", 1)


def _parsed(argv: list[str]) -> tuple[Any, argparse.Namespace]:
    """The module of a command and its arguments; None where none is named, after the help was printed."""
    if not argv or argv[0] not in COMMANDS:
        parser = _top_parser()
        args = parser.parse_args(argv)  # --help and --version exit here; so does an unknown command
        parser.print_help()
        return None, args
    name, rest = argv[0], argv[1:]
    module_name, help_text = COMMANDS[name]
    module = importlib.import_module(module_name)
    command = Parser(prog=f"masp {name}", description=help_text, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.description = module.__doc__ or help_text
    module.add_arguments(command)
    if not {"-h", "--help"}.isdisjoint(rest) and hasattr(module, "explain"):
        module.explain(command, rest)
    return module, command.parse_args(rest)


def _open_closed_streams() -> None:
    """Redirect streams that the caller has closed, as `masp ... >&-` does, to nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - open until the process ends


def _failed(name: str, message: str, code: int, cause: BaseException | None = None) -> int:
    """Say in one line why a command failed; below it, the traceback of code that is the user's own."""
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()
    with contextlib.suppress(OSError):  # where stderr cannot be written, the exit code alone says it
        print(f"{name}: {printable(message)}", file=sys.stderr)
        if cause is not None:
            print(printable_lines("".join(traceback.format_exception(cause))), end="", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    """Show a `LineWarning` as one line; other warnings look as usual."""
    if issubclass(category, LineWarning):
        print(f"masp: {printable(str(message))}", file=sys.stderr)
    else:
        print(warnings.formatwarning(message, category, *place[:2]), file=sys.stderr, end="")


def _discard_output() -> None:
    """Redirect standard output to nowhere, so that Python reports no error about it when it exits."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _top_parser() -> Parser:
    lines = "\n".join(f"  {name:<12} {help_text}" for name, (_, help_text) in COMMANDS.items())
    parser = Parser(
        prog="masp",
        description=f"{masp.__doc__}\n\ncommands:\n{lines}",
        epilog="'masp COMMAND --help' explains one command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"masp {masp.__version__}")
    parser.add_argument("command", nargs="?", choices=list(COMMANDS), metavar="COMMAND", help="one of the above")
    return parser
