"""The page of an experiment's table: ours beside the paper's, curves, profiles and similarities, from the store."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import masp
from masp.errors import UserError
from masp.report.figures import colour_of
from masp.report.page.charts import bands_text, flat_note
from masp.report.page.colours import shades
from masp.report.page.curves import band, rounded
from masp.report.page.groups import SPARE_COLOURS
from masp.report.page.maps import ALL_MAPS_BYTES, MOST_SNAPSHOTS, map_data
from masp.report.page.summary import hash_text
from masp.report.paper import paper_figure
from masp.report.render import footnotes, heading, ours, shows_paper
from masp.report.statistics import performance_profile, profile_band
from masp.report.tables import CLAIM, SCORES, Records, Table, TableCell, interval_text, summarise, summary_lines
from masp.similarity.bundle import load_bundle
from masp.training.similarity_history import Snapshots, quantised, read_history

MOST_MAPS = 24
CURVE_POINTS = 120
Block = dict[str, Any]
Row = tuple[tuple[str, ...], dict[str, TableCell]]


def experiment_page(table: Table, records: Records, store: Path) -> dict[str, Any]:
    """The content of the page about a table."""
    colours = _colours(table)
    sections = [
        ("summary", "What came out", _summary(table, colours)),
        ("learning", "Learning", _curves(table, records, colours)),
        ("profiles", "Over all tasks", _profiles(table, colours)),
        ("similarity", "Which actions are alike", _maps(table, records, store)),
        ("settings", "What was run", _made_by(table, records)),
    ]
    return {
        "title": table.title,
        "subtitle": f"Experiment {table.experiment}, scale {table.scale}",
        "made": f"masp {masp.__version__}, {time.strftime('%d %B %Y, %H:%M UTC', time.gmtime())}",
        "story": [],
        "sections": [{"id": name, "title": title, "blocks": blocks} for name, title, blocks in sections if blocks],
    }


def _colours(table: Table) -> dict[str, str]:
    own = {column: colour_of(column) for column in table.columns}
    return {column: own[column] or SPARE_COLOURS[i % len(SPARE_COLOURS)] for i, column in enumerate(table.columns)}


def _summary(table: Table, colours: Mapping[str, str]) -> list[Block]:
    rows = [[*row, *(_cell_text(cells.get(column), table) for column in table.columns)] for row, cells in table.rows]
    grid = {"kind": "table", "caption": heading(table), "columns": [*table.row_names, *table.columns], "rows": rows}
    compared = [] if table.scale == "smoke" else _comparisons(table, colours)
    skipped = set(summary_lines(table))
    notes = [_text(line, "note") for line in footnotes(table) if line not in skipped]
    dots = [chart for number, row in enumerate(table.rows) if (chart := _dots(table, row, number, colours))["rows"]]
    return [*_finding(table), grid, *notes, *compared, *([{"kind": "dots", "dots": dots}] if dots else [])]


def _finding(table: Table) -> list[Block]:
    """One sentence that compares the claim with Rainbow and with macros without a penalty."""
    if not any(cell.values for _, cells in table.rows for cell in cells.values()):
        return [_text("No run of this table is finished yet.", "finding")]
    if table.scale == "smoke":
        return []
    against = summarise(table)["against"]
    parts = [
        f"{column} with probability {interval_text(against[column]['probability_of_improvement'], 2)}"
        for column in ("rainbow", "macros")
        if column in against
    ]
    text = f"A run of {CLAIM} is better than one of {', than one of '.join(parts)} (1/2: equal)."
    return [_text(text, "finding")] if parts else []


def _comparisons(table: Table, colours: Mapping[str, str]) -> list[Block]:
    """The claim against every column, and every column over all tasks."""
    summary, blocks = summarise(table), []
    named = {column: {"text": column, "colour": shades(colour)} for column, colour in colours.items()}
    if against := summary["against"]:
        rows = [
            [
                named[column],
                interval_text(figures["probability_of_improvement"], 2),
                interval_text(figures["difference"], 3) if figures["difference"] else "–",
                str(figures["rows"]),
            ]
            for column, figures in against.items()
        ]
        columns = ["against", "probability that a run is better", f"difference of {table.measure}", "rows"]
        caption = f"{CLAIM} against the other columns, with 95 % bootstrap intervals"
        blocks.append({"kind": "table", "caption": caption, "columns": columns, "rows": rows})
    if over_tasks := summary["over_tasks"]:
        rows = [
            [named[column], interval_text(figures["iqm"], 3), interval_text(figures["mean"], 3)]
            for column, figures in over_tasks.items()
        ]
        columns = ["column", "interquartile mean", "mean"]
        caption = f"{SCORES[table.measure]} over all tasks, with 95 % bootstrap intervals"
        blocks.append({"kind": "table", "caption": caption, "columns": columns, "rows": rows})
    return blocks


def _text(text: str, tone: str) -> Block:
    return {"kind": "text", "tone": tone, "text": text}


def row_title(headings: Sequence[str], names: Sequence[str]) -> str:
    """What a row is, outside of its table: the task, and what its other names are."""
    return ", ".join([names[0], *(f"{heading} {name}" for heading, name in zip(headings[1:], names[1:], strict=True))])


def _cell_text(cell: TableCell | None, table: Table) -> str:
    if cell is None:
        return ""
    text = ours(cell, table.measure).replace(" [", "\n[", 1)  # narrow columns, because there are many
    return text + (f"\npaper: {cell.paper}" if shows_paper(cell, table) else "")


def _dots(table: Table, row: Row, number: int, colours: Mapping[str, str]) -> dict[str, Any]:
    names, cells = row
    rows: list[dict[str, Any]] = []
    for column, cell in cells.items():
        paper = paper_figure(table.paper_table, names, column) if shows_paper(cell, table) else None
        if cell.mean is None and paper is None:
            continue
        low, high = cell.interval or (None, None)
        entry = {"name": column, "colour": shades(colours[column]), "value": cell.mean, "low": low, "high": high}
        rows.append({**entry, "points": list(cell.values), "paper": None if paper is None else paper.mean})
    return {
        "id": f"row-{number}",
        "title": row_title(table.row_names, names),
        "read": "Dots: mean of our seeds with its 95 % interval, and single seeds."
        + (" Diamonds: the paper's figures." if any(row["paper"] is not None for row in rows) else ""),
        "x": f"evaluation {table.measure}",
        "rows": rows,
    }


def _curves(table: Table, records: Records, colours: Mapping[str, str]) -> list[Block]:
    """Learning curves of every row."""
    charts, sizes = [], []
    for names, cells in table.rows:
        lines = []
        for column, cell in cells.items():
            curves = [_curve(records[cell.trial, seed], table.measure) for seed in cell.seeds]
            if curve := band(curves, CURVE_POINTS):
                sizes.append(len(curves))
                look = {"group": column, "colour": shades(colours[column]), "dash": False, "runs": []}
                lines.append({"name": column, **look, **curve})
        if any(len(line["x"]) > 1 for line in lines):
            read = f"Evaluation {table.measure} while training. Higher is better; further left is faster."
            name = f"curve-{hash_text(repr(names))}"
            axes = ("environment frames", table.measure)
            charts.append(_chart(name, row_title(table.row_names, names), read, axes, lines))
    return [_charts_block(bands_text(sizes), colours, charts)] if charts else []


def _curve(record: Mapping[str, Any], measure: str) -> tuple[np.ndarray, np.ndarray]:
    points = zip(record["curve_frames"], record[f"curve_{measure}"], strict=True)
    measured = [(frames, value) for frames, value in points if value is not None]
    frames, values = zip(*measured, strict=True) if measured else ((), ())
    return np.array(frames, float), np.array(values, float)


def _profiles(table: Table, colours: Mapping[str, str]) -> list[Block]:
    """Performance profiles, where the scores of tasks are comparable."""
    complete = [c for c in table.columns if all(c in cells and cells[c].values for _, cells in table.rows)]
    if table.measure != "success" or len(table.rows) < 2 or not complete:
        return []
    thresholds, lines = np.linspace(0, 1, 101), []
    for column in complete:
        scores = [cells[column].values for _, cells in table.rows]
        low, high = profile_band(scores, thresholds)
        edges = {"low": rounded(low), "high": rounded(high), "n": sum(map(len, scores))}
        look = {"group": column, "colour": shades(colours[column]), "dash": False, "runs": []}
        share = {"x": rounded(thresholds), "y": rounded(performance_profile(scores, thresholds))}
        lines.append({"name": column, **look, **share, **edges})
    read = "Share of runs, tasks weighted equally, whose success exceeds the value below: higher is better."
    chart = _chart("profile", "Performance profile", read, ("success above", "share of runs"), lines)
    note = "Bands are point-wise 95 % bootstrap intervals over seeds within tasks."
    return [_charts_block(note, colours, [chart])]


def _charts_block(note: str, colours: Mapping[str, str], charts: list[Block]) -> Block:
    legend = [(column, shades(colour)) for column, colour in colours.items()]
    return {"kind": "charts", "title": "", "note": note, "legend": legend, "charts": charts}


def _chart(name: str, title: str, read: str, axes: tuple[str, str], lines: list[dict[str, Any]]) -> dict[str, Any]:
    head = {"id": name, "title": title, "read": read, "x": axes[0], "y": axes[1]}
    return {**head, "lines": lines, "reference": None, "dashes": [], "note": flat_note(lines)}


def _maps(table: Table, records: Records, store: Path) -> list[Block]:
    """The similarity of the first seed of every `masp` cell, over time where its run is still there."""
    cells = [(row, cell) for row, columns in table.rows if (cell := columns.get("masp")) is not None and cell.seeds]
    maps: list[dict[str, Any]] = []
    left, wanted = ALL_MAPS_BYTES, 0
    for row, cell in cells:
        run = store / str(records[cell.trial, cell.seeds[0]]["run"])
        bundle_file = store / "bundles" / f"{cell.trial}-{cell.seeds[0]}.safetensors"
        bundle_file = bundle_file if bundle_file.exists() else run / "similarity.safetensors"
        if not bundle_file.exists():
            continue
        wanted += 1
        bundle = load_bundle(bundle_file)
        history = _history(run, len(bundle.actions)) or quantised(cell.frames, bundle.similarity)
        pairs = history.pairs.shape[1]
        if len(maps) < MOST_MAPS and pairs <= left:
            most = min(MOST_SNAPSHOTS, max(left // (len(cells) * max(pairs, 1)), 1))
            label = f"{row_title(table.row_names, row)}, seed {cell.seeds[0]}"
            maps.append(map_data(label, bundle.actions, history, most))
            left -= pairs * len(maps[-1]["frames"])
    note = "" if len(maps) == wanted else f"{len(maps)} of {wanted} runs, so that the page stays small."
    return [{"kind": "maps", "maps": maps, "note": note}] if maps else []


def _history(run: Path, num_actions: int) -> Snapshots | None:
    try:
        return read_history(run / "similarity-history.safetensors", num_actions)
    except UserError:  # the last state is in the bundle
        return None


def _made_by(table: Table, records: Records) -> list[Block]:
    """Which sources, kernels and machines the figures come from."""
    cells = [cell for _, columns in table.rows for cell in columns.values()]
    used = [records[cell.trial, seed] for cell in cells for seed in cell.seeds]
    if not used:
        return []
    makers = Counter(
        (record["commit"], str(record.get("version", "–")), str(record.get("kernels") or "–"), _cpu(record))
        for record in used
    )
    columns = ["commit", "masp", "kernels", "processor", "runs"]
    rows = [[*maker, f"{count:,}"] for maker, count in makers.most_common()]
    return [{"kind": "table", "caption": "Made by", "columns": columns, "rows": rows}]


def _cpu(record: Mapping[str, Any]) -> str:
    machine = record.get("machine")
    return str(machine.get("cpu") or "–") if isinstance(machine, dict) else "–"
