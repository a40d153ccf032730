"""Tables on standard output that fit the terminal, in a pipe or file as wide as they need to be; status on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.table import Table

from masp.printable import printable, rich_text

UNLIMITED = 10_000
WIDE_HELP = "show all columns unshortened, also where the terminal is too narrow for them"


def console(wide: bool = False) -> Console:
    """A console on standard output: as wide as the terminal, without limit if `wide` or if there is no terminal.

    COLUMNS sets the width of both, as in other programs.
    """
    limited = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if limited and not wide else UNLIMITED, highlight=False)


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str = "",
    wide: bool = False,
    optional: Collection[str] = (),
    numbers: Collection[str] = (),
) -> None:
    """Print plain texts as a table, brackets and escapes included as they are.

    Args:
      wide: show everything, however wide.
      optional: columns that are left out in a narrow terminal, the last first; what still does not fit is wrapped.
      numbers: columns that are aligned to the right.
    """
    out = console(wide)
    left_out: list[str] = []
    droppable = [name for name in columns if name in optional]
    while True:
        shown = [name for name in columns if name not in left_out]
        table = _table(columns, rows, shown, numbers)
        if not droppable or _natural_width(table) <= out.width:
            break
        left_out.append(droppable.pop())
    parts = [rich_text(title)] if title else []
    remark = [rich_text(f"not shown: {', '.join(reversed(left_out))} (--wide shows all columns)")] if left_out else []
    _print(out, *parts, table, *remark)


def print_text(text: str, wide: bool = False) -> None:
    """Print plain text, wrapped between words where the terminal is narrow."""
    _print(console(wide), rich_text(text, lines=True))


def _print(out: Console, *parts: RenderableType) -> None:
    """Print without spaces at the ends of lines, with which rich fills columns and wraps words."""
    with out.capture() as lines:
        for part in parts:
            out.print(part)
    print("\n".join(line.rstrip() for line in lines.get().splitlines()))


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show a status on stderr: in a terminal as long as the block runs, elsewhere as one line."""
    if not sys.stderr.isatty():
        print(printable(text), file=sys.stderr, flush=True)
        yield
        return
    with Console(stderr=True).status(rich_text(text)):
        yield


def _natural_width(table: Table) -> int:
    """Width of the table where nothing is wrapped."""
    return Console(width=UNLIMITED).measure(table).maximum


def _table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], shown: Sequence[str], numbers: Collection[str]
) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in shown:
        right = name in numbers
        table.add_column(rich_text(name), justify="right" if right else "left", overflow="fold", no_wrap=right)
    places = [list(columns).index(name) for name in shown]
    for row in rows:
        table.add_row(*[rich_text(row[place]) for place in places])
    return table
