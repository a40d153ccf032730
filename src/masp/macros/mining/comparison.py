"""The paper's literal macro sets beside the useful ones: figures and a table for the documentation.

python -m masp.macros.mining.comparison FOLDER_OF_GAMES --out docs/figures
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from masp.macros.actions import ActionSet
from masp.macros.mining.effect import effect
from masp.macros.mining.figures import draw_overlap
from masp.macros.mining.mine import mine
from masp.macros.mining.names import noop_action
from masp.macros.mining.report import report
from masp.macros.mining.settings import MiningSettings
from masp.macros.mining.sources import open_sources

STRIDES = (1, 4)
_COLOURS = {"literal": "#b8b8b8", "useful": "#1f77b4"}


@dataclass(frozen=True)
class SetFigures:
    """What one macro set is like."""

    game: str
    stride: int
    name: str
    actions: ActionSet
    constant: float
    """Share of macros that are constant runs."""
    constant_but_for_noops: float
    """Share of macros that are one action held, with or without waiting around it."""
    changes: float
    """Share of action changes in the play that lie inside a macro."""
    rows: float
    """Share of rows of the play that lie inside a macro."""


def compare(folder: Path) -> list[SetFigures]:
    """Literal and useful sets of every game (sub-folder), for raw frames and frame skip 4."""
    found = []
    for game in sorted(path for path in folder.iterdir() if path.is_dir()):
        sources = open_sources([game])
        for stride in STRIDES:
            for name, settings in (
                ("literal", MiningSettings.literal(stride=stride)),
                ("useful", MiningSettings(stride=stride)),
            ):
                mined = mine(sources, settings)
                about = report(mined)
                noop = noop_action(mined.actions.primitive_names)
                sequences = [macro.actions for macro in mined.actions.macros]
                held = sum(len(set(effect(sequence, noop))) == 1 for sequence in sequences)
                found.append(
                    SetFigures(
                        game=game.name,
                        stride=stride,
                        name=name,
                        actions=mined.actions,
                        constant=about["constant_macros"] / len(sequences),
                        constant_but_for_noops=held / len(sequences),
                        changes=about["changes_covered"],
                        rows=about["rows_covered"],
                    )
                )
    return found


def bars(sets: Sequence[SetFigures]) -> Figure:
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
                chosen = {s.game: getattr(s, field) for s in sets if s.name == name and s.stride == stride}
                places = [i + shift for i in range(len(games))]
                drawn = panel.bar(places, [chosen[g] for g in games], 0.4, color=_COLOURS[name], label=name)
                panel.bar_label(drawn, [f"{chosen[g]:.0%}" for g in games], fontsize=7)
            panel.set_xticks(range(len(games)), games, fontsize=7)
            panel.set_ylim(0, 1.1)
            panel.set_title(title, fontsize=9)
        row[0].set_ylabel(f"share, stride {stride}")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def overlaps(sets: Sequence[SetFigures], game: str, stride: int = 4) -> Figure:
    """Overlap of the literal and of the useful set of one game, side by side."""
    pair = [s for s in sets if s.game == game and s.stride == stride]
    figure = Figure(figsize=(15, 6.4), layout="constrained", dpi=100)
    for panel, one in zip(figure.subplots(1, len(pair)), pair, strict=True):
        image = draw_overlap(panel, one.actions, f"{game}, stride {stride}: {one.name}")
    figure.colorbar(image, ax=figure.axes, shrink=0.7, label="longest common subsequence / longer length")
    return figure


def table(sets: Sequence[SetFigures]) -> str:
    """The same figures as Markdown."""
    lines = [
        "| game | stride | set | macros | constant runs | one action held | changes covered | rows covered |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for s in sets:
        shares = (s.constant, s.constant_but_for_noops, s.changes, s.rows)
        cells = [s.game, s.stride, s.name, len(s.actions.macros), *(f"{share:.0%}" for share in shares)]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main() -> None:
    """Write the figures, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="holds one folder of recorded play per game")
    parser.add_argument("--out", type=Path, required=True, help="folder for the figures")
    args = parser.parse_args()
    sets = compare(args.folder)
    bars(sets).savefig(args.out / "mining-sets.png")
    overlaps(sets, "pitfall").savefig(args.out / "mining-overlap-pitfall.png")
    print(table(sets))


if __name__ == "__main__":
    main()
