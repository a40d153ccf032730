"""A table as text, Markdown or LaTeX."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import Literal

from rich.console import Console
from rich.table import Table as RichTable

from masp.printable import printable, rich_text
from masp.report.tables import Table, TableCell, summary_lines

Format = Literal["text", "markdown", "latex"]
LEGEND = "[95 % bootstrap interval over seeds]"
SMOKE = "scale smoke shows that everything runs; it is far too short for its figures to mean anything"
FEW = 5
"""Below this number of seeds the bootstrap interval of a mean is too narrow: with three it is close to their range."""


def render(table: Table, form: Format = "text", width: int = 10_000) -> str:
    """The whole table, with title and notes; as text, columns beyond `width` continue below."""
    if form == "text":
        return _text(table, width)
    return {"markdown": _markdown, "latex": _latex}[form](table)


def number(value: float, measure: str) -> str:
    """Three decimals for success, about three significant digits for returns."""
    if measure == "success":
        return f"{value:.3f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ours(cell: TableCell, measure: str) -> str:
    """Our figure with its interval; a star marks missing seeds."""
    if cell.mean is None:
        return "–"
    text = number(cell.mean, measure)
    if cell.interval is not None:
        low, high = cell.interval
        text += f" [{number(low, measure)}, {number(high, measure)}]"
    return text + (" *" if cell.missing_seeds else "")


def heading(table: Table) -> str:
    """Title, scale and measure."""
    when = ", mean over the run" if table.judged == "run" else ""
    return f"{table.title}; scale {table.scale}; evaluation {table.measure}{when} {LEGEND}"


def footnotes(table: Table) -> list[str]:
    """Seeds, frames, commits, comparisons, what is missing, and the notes."""
    cells = [cell for _, row in table.rows for cell in row.values()]
    finished = [cell for cell in cells if cell.values]
    lines = [SMOKE] if table.scale == "smoke" else []
    if finished and table.scale != "smoke":
        seeds = sorted({len(cell.values) for cell in finished})
        frames = sorted({cell.frames for cell in finished})
        commits = sorted({commit for cell in finished for commit in cell.commits})
        lines.append(f"seeds per cell: {_span(seeds)}; frames per seed: {_span(frames)}; commit: {', '.join(commits)}")
        if any(1 < count < FEW for count in seeds):
            lines.append(
                f"with fewer than {FEW} seeds an interval is little more than their range and covers less than 95 %"
            )
        if any(cell.chosen for cell in finished):
            lines.append("penalty weight (and meta-learning rate) chosen per cell on other seeds: " + _choices(table))
        lines += summary_lines(table)
    missing = sum(not cell.values for cell in cells)
    if missing:
        lines.append(f"–: not run yet ({missing} of {len(cells)} cells)")
    if any(cell.missing_seeds and cell.values for cell in cells):
        lines.append("*: some seeds are not finished yet")
    return lines + list(table.notes)


def _span(values: list[int]) -> str:
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"


def _choices(table: Table) -> str:
    parts = []
    for row, cells in table.rows:
        chosen = [
            f"{column} {'/'.join(f'{value:g}' for value in cell.chosen.values())}"
            for column, cell in cells.items()
            if cell.chosen
        ]
        if chosen:
            parts.append(f"{', '.join(row)}: {', '.join(chosen)}")
    return "; ".join(parts)


def _text(table: Table, width: int) -> str:
    blocks, columns = [], list(table.columns)
    while columns:
        count = len(columns)
        while count > 1 and _width(_grid(table, columns[:count])) > width:
            count -= 1
        out = io.StringIO()
        Console(file=out, width=width).print(_grid(table, columns[:count]))
        blocks.append(out.getvalue().rstrip("\n"))
        columns = columns[count:]
    head, *notes = [textwrap.fill(printable(line), width) for line in (heading(table), *footnotes(table))]
    return "\n".join([head, *blocks, *notes])


def _grid(table: Table, columns: Sequence[str]) -> RichTable:
    """The names of the rows and some of the columns."""
    grid = RichTable(show_lines=True)
    for name in (*table.row_names, *columns):
        grid.add_column(rich_text(name))
    for row, cells in table.rows:
        figures = [_lines(cells.get(column), table) for column in columns]
        grid.add_row(*[rich_text(text, lines=True) for text in (*row, *figures)])
    return grid


def _width(grid: RichTable) -> int:
    return Console(width=10_000).measure(grid).maximum


def _lines(cell: TableCell | None, table: Table) -> str:
    """Our figure, its interval and the paper's figure, one below the other."""
    if cell is None:
        return ""
    mean, _, rest = ours(cell, table.measure).partition(" ")
    return "\n".join([mean, *([rest] if rest else []), *([f"paper {cell.paper}"] if shows_paper(cell, table) else [])])


def shows_paper(cell: TableCell, table: Table) -> bool:
    """Whether the paper's figure stands beside ours; a smoke run is no match for it."""
    return bool(cell.paper) and (table.scale != "smoke" or not cell.values)


def _markdown(table: Table) -> str:
    head = [*table.row_names, *table.columns]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row, cells in table.rows:
        figures = [_beside(cells.get(column), table) for column in table.columns]
        lines.append("| " + " | ".join([*row, *figures]) + " |")
    notes = [f"- {line}" for line in footnotes(table)]
    return "\n".join([heading(table), "", *lines, "", *notes])


def _beside(cell: TableCell | None, table: Table) -> str:
    if cell is None:
        return ""
    return ours(cell, table.measure) + (f" (paper {cell.paper})" if shows_paper(cell, table) else "")


def _latex(table: Table) -> str:
    names = len(table.row_names)
    head = " & ".join([*map(_tex, table.row_names), *map(_tex, table.columns)])
    lines = [
        r"\begin{table}",
        r"\centering",
        r"\begin{tabular}{" + "l" * names + "r" * len(table.columns) + "}",
        r"\toprule",
        head + r" \\",
        r"\midrule",
    ]
    for row, cells in table.rows:
        figures = [_tex(_beside(cells.get(column), table)) for column in table.columns]
        lines.append(" & ".join([*map(_tex, row), *figures]) + r" \\")
    caption = _tex(". ".join([heading(table), *footnotes(table)]))
    lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", r"\end{table}"]
    return "\n".join(lines)


_TEX = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "±": r"$\pm$", "–": "--", "$": r"\$", "{": r"\{", "}": r"\}"}
_TEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}


def _tex(text: str) -> str:
    return "".join(_TEX.get(letter, letter) for letter in text)
