"""Compare the paper's literal macro sets with the default ones: figures and the table of docs/mining.md.

python docs/figures/mining.py FOLDER_OF_GAMES [--out docs/figures]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from masp.macros.actions import ActionSet, noop_action
from masp.macros.mining.mine import mine
from masp.macros.mining.report import report
from masp.macros.mining.selection import effect
from masp.macros.mining.settings import MiningSettings
from masp.macros.mining.sources import Source, open_sources
from masp.report.macro_overlap import COLOUR_BAR_LABEL, draw_overlap

STRIDES = (1, 4)
COLOURS = {"literal": "#b8b8b8", "useful": "#1f77b4"}


@dataclass(frozen=True)
class SetStatistics:
    """Statistics of one macro set."""

    game: str
    stride: int
    name: str
    actions: ActionSet
    constant: float
    """Share of macros that are constant runs."""
    one_action: float
    """Share of macros that hold one action, with or without waiting before and after it."""
    changes: float
    """Share of action changes in the play that lie inside a macro."""
    rows: float
    """Share of rows of the play that lie inside a macro."""


def compare(folder: Path) -> list[SetStatistics]:
    """Literal and useful sets of every game (sub-folder), for raw frames and frame skip 4."""
    sets = []
    for game in sorted(path for path in folder.iterdir() if path.is_dir()):
        sources = open_sources([game])
        for stride in STRIDES:
            sets.append(statistics(game.name, "literal", sources, MiningSettings.literal(stride=stride)))
            sets.append(statistics(game.name, "useful", sources, MiningSettings(stride=stride)))
    return sets


def statistics(game: str, name: str, sources: Sequence[Source], settings: MiningSettings) -> SetStatistics:
    """Mine one set and measure it."""
    result = mine(sources, settings)
    entry = report(result)
    noop = noop_action(result.actions.primitive_names)
    sequences = [macro.actions for macro in result.actions.macros]
    return SetStatistics(
        game=game,
        stride=settings.stride,
        name=name,
        actions=result.actions,
        constant=entry["constant_macros"] / len(sequences),
        one_action=sum(len(set(effect(sequence, noop))) == 1 for sequence in sequences) / len(sequences),
        changes=entry["changes_covered"],
        rows=entry["rows_covered"],
    )


def bars(sets: Sequence[SetStatistics]) -> Figure:
    """Constant runs, changes covered and rows covered, one pair of bars per game and stride."""
    figure = Figure(figsize=(11, 6.2), layout="constrained", dpi=110)
    axes = figure.subplots(len(STRIDES), 3, sharey=True)
    games = sorted({s.game for s in sets})
    panels = (
        ("constant", "macros that are constant runs"),
        ("changes", "action changes covered"),
        ("rows", "rows of play covered"),
    )
    for row, stride in zip(axes, STRIDES, strict=True):
        for panel, (field, title) in zip(row, panels, strict=True):
            for shift, name in ((-0.2, "literal"), (0.2, "useful")):
                values = {s.game: getattr(s, field) for s in sets if s.name == name and s.stride == stride}
                positions = [i + shift for i in range(len(games))]
                container = panel.bar(positions, [values[g] for g in games], 0.4, color=COLOURS[name], label=name)
                panel.bar_label(container, [f"{values[g]:.0%}" for g in games], fontsize=7)
            panel.set_xticks(range(len(games)), games, fontsize=7)
            panel.set_ylim(0, 1.1)
            panel.set_title(title, fontsize=9)
        row[0].set_ylabel(f"share, stride {stride}")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def overlaps(sets: Sequence[SetStatistics], game: str, stride: int = 4) -> Figure:
    """Overlap of the literal and of the useful set of one game, side by side."""
    pair = [s for s in sets if s.game == game and s.stride == stride]
    figure = Figure(figsize=(15, 6.4), layout="constrained", dpi=100)
    for panel, one in zip(figure.subplots(1, len(pair)), pair, strict=True):
        image = draw_overlap(panel, one.actions, f"{game}, stride {stride}: {one.name}")
    figure.colorbar(image, ax=figure.axes, shrink=0.7, label=COLOUR_BAR_LABEL)
    return figure


def table(sets: Sequence[SetStatistics]) -> str:
    """The statistics as a Markdown table."""
    lines = [
        "| game | stride | set | macros | constant runs | one action held | changes covered | rows covered |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for s in sets:
        shares = (s.constant, s.one_action, s.changes, s.rows)
        cells = [s.game, s.stride, s.name, len(s.actions.macros), *(f"{share:.0%}" for share in shares)]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main() -> None:
    """Write the figures and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="holds one folder of recorded play per game")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder for the figures")
    args = parser.parse_args()
    sets = compare(args.folder)
    bars(sets).savefig(args.out / "mining-sets.png")
    overlaps(sets, "pitfall").savefig(args.out / "mining-overlap-pitfall.png")
    print(table(sets))


if __name__ == "__main__":
    main()
