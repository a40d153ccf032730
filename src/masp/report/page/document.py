"""The content of the page as plain data, from run directories; and the page itself, one HTML file."""

from __future__ import annotations

import base64
import gzip
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import masp
from masp import json_text
from masp.config import to_flat
from masp.errors import UserError
from masp.printable import printable_lines
from masp.report.page import charts
from masp.report.page.charts import bands_note
from masp.report.page.colours import shades
from masp.report.page.groups import Group, differing, grouped, setting_text, task_name
from masp.report.page.maps import similarity_maps
from masp.report.page.runs import VIDEO_TYPES, ReportRun, find_runs
from masp.report.page.summary import hash_text, state_text, summary_blocks
from masp.report.page.usage import usages

ALL_VIDEOS_BYTES = 2_500_000
"""Videos of a page together, before they are encoded."""
MADE_BY = ("masp", "commit", "kernels", "python", "jax")
Block = dict[str, Any]


def write_report(
    run_dirs: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    title: str = "",
    story: Sequence[str | tuple[str, str]] = (),
    captions: Mapping[str, str] | None = None,
) -> Path:
    """Write one page about some runs; returns its path.

    Args:
      run_dirs: run directories, or folders with run directories in them.
      out: the HTML file to write; an existing one is replaced.
      title: heading; empty: the tasks.
      story: paragraphs below the heading: what was compared, what came out, what to do next. A pair begins with its
        first text in bold; what is between backticks is code.
      captions: what the runs of a group are, by the group's label, which is the variant if nothing else differs; what
        to call a task, by its name on the page without them.
    """
    paths = find_runs([os.fspath(path) for path in run_dirs])
    runs = [ReportRun.open(path) for path in paths]
    return write_page(run_page(runs, title, story, captions or {}), out)


def write_page(page: dict[str, Any], out: str | os.PathLike[str]) -> Path:
    """Write the HTML file of some content, whole or not at all."""
    path = Path(out)
    if not path.absolute().parent.is_dir():
        raise UserError(f"{path}: there is no such folder to write to")
    json_text.replace_text(path, html(page))
    return path


def run_page(
    runs: Sequence[ReportRun],
    title: str = "",
    story: Sequence[str | tuple[str, str]] = (),
    captions: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The content of the page about some runs."""
    captions = captions or {}
    groups = [replace(group, task=captions.get(group.task, group.task)) for group in grouped(runs)]
    tasks = {task: [group for group in groups if group.task == task] for task in dict.fromkeys(g.task for g in groups)}
    sections = [
        _section("summary", "What came out", _summary(tasks, captions)),
        _section("learning", "Learning", _chart_blocks(charts.LEARNING, tasks, "learning")),
        _section("similarity", "Which actions are alike", _maps(groups)),
        _section("macros", "Use of macros", _usage(groups, tasks)),
        _section("penalty", "What the penalty does", _chart_blocks(charts.PENALTY, tasks, "penalty")),
        _section("episodes", "Episodes", _videos(groups)),
        _section("settings", "What was run", _settings(runs)),
        _section("system", "System", [*_chart_blocks(charts.SYSTEM, tasks, "system"), _system(runs)]),
    ]
    return {
        "title": title or " and ".join(tasks),
        "subtitle": _subtitle(groups),
        "made": f"masp {masp.__version__}, {time.strftime('%d %B %Y, %H:%M UTC', time.gmtime())}",
        "story": [("", part) if isinstance(part, str) else part for part in story],
        "sections": [section for section in sections if section["blocks"]],
    }


def html(page: Mapping[str, Any], live: bool = False) -> str:
    """The page as one HTML file; `live`: it asks its server for newer content.

    Content and plotting script are compressed, which makes the file a third as large. Neither can end its script
    element, because base64 has no `<`; the page writes texts as text only.
    """
    folder = files(__package__) / "assets"
    parts = {
        "{{style}}": (folder / "page.css").read_text(),
        "{{script}}": "".join((folder / name).read_text() for name in ("charts.js", "maps.js", "page.js")),
        "{{connect}}": "'self'" if live else "'none'",
        "{{live}}": "yes" if live else "no",
        "{{plotly}}": _packed_plotly(),
        "{{content}}": _packed(page_json(page)),
    }
    text = (folder / "page.html").read_text()
    for mark, part in parts.items():
        text = text.replace(mark, part, 1)
    return text


def page_json(page: Mapping[str, Any]) -> str:
    """The content as JSON. Control characters of names are made visible: some turn the text behind them around."""
    return json_text.dumps(_visible(page))


def _visible(part: Any) -> Any:
    if isinstance(part, str):
        return printable_lines(part)
    if isinstance(part, Mapping):
        return {name: _visible(value) for name, value in part.items()}
    if isinstance(part, (list, tuple)) and any(isinstance(value, (str, Mapping, list, tuple)) for value in part):
        return [_visible(value) for value in part]
    return part


@cache
def _packed_plotly() -> str:
    from plotly.offline import get_plotlyjs

    return _packed(get_plotlyjs())


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def _section(name: str, title: str, blocks: list[Block]) -> dict[str, Any]:
    return {"id": name, "title": title, "blocks": blocks}


def _subtitle(groups: Sequence[Group]) -> str:
    runs = [run for group in groups for run in group.runs]
    running = sum(run.state == "running" for run in runs)
    text = f"{len(runs)} run{'s' * (len(runs) > 1)} in {len(groups)} group{'s' * (len(groups) > 1)}"
    return text + (f", {running} still training" if running else "")


def _summary(tasks: Mapping[str, Sequence[Group]], captions: Mapping[str, str]) -> list[Block]:
    several = len(tasks) > 1
    return [block for task, groups in tasks.items() for block in summary_blocks(task, groups, captions, several)]


def _chart_blocks(kinds: Sequence[Any], tasks: Mapping[str, Sequence[Group]], name: str) -> list[Block]:
    """The charts of every task."""
    blocks = []
    for task, groups in tasks.items():
        drawn = charts.charts(kinds, groups, f"{name}-{hash_text(task)}")
        if drawn:
            title = task if len(tasks) > 1 else ""
            legend = {group.label: shades(group.colour) for group in groups}
            head = {"kind": "charts", "title": title, "note": bands_note(groups), "legend": list(legend.items())}
            blocks.append({**head, "charts": drawn})
    return blocks


def _maps(groups: Sequence[Group]) -> list[Block]:
    maps = similarity_maps(groups)
    if not maps:
        return []
    penalised = sum(run.config.penalised for group in groups for run in group.runs)
    note = "" if len(maps) == penalised else f"{len(maps)} of {penalised} runs, so that the page stays small."
    return [{"kind": "maps", "maps": maps, "note": note}]


def _usage(groups: Sequence[Group], tasks: Mapping[str, Sequence[Group]]) -> list[Block]:
    usage = usages(groups)
    return [*_chart_blocks(charts.USAGE, tasks, "usage"), *([{"kind": "usages", "usages": usage}] if usage else [])]


def _videos(groups: Sequence[Group]) -> list[Block]:
    """Recorded episodes, first seeds first, as far as they fit."""
    files_of = [(group, run, file) for group in groups for run in group.runs for file in run.videos]
    videos, left = [], ALL_VIDEOS_BYTES
    for group, run, file in sorted(files_of, key=lambda entry: entry[1].config.seed):
        size = file.stat().st_size
        if size <= left:
            left -= size
            data = base64.b64encode(file.read_bytes()).decode()
            label = f"{group.task}: {group.label}, seed {run.config.seed} ({file.name})"
            videos.append({"label": label, "type": VIDEO_TYPES[file.suffix.lower()], "data": data})
    if not videos:
        return []
    note = (
        ""
        if len(videos) == len(files_of)
        else f"{len(videos)} of {len(files_of)} videos, so that the page stays small."
    )
    return [{"kind": "videos", "videos": videos, "note": note}]


def _settings(runs: Sequence[ReportRun]) -> list[Block]:
    """Tables of the settings that differ, of the versions and machines, and of the settings that all runs share."""
    names = differing(runs)
    shown = [name for name in names if name not in ("env", "env_options", "seed")]
    columns = ["run", "task", "seed", *(name.replace("_", " ") for name in shown), "state"]
    flats = [to_flat(run.config) for run in runs]
    rows = [
        [
            name,
            task_name(run),
            str(run.config.seed),
            *(setting_text(flat[name]) for name in shown),
            state_text(run),
        ]
        for name, run, flat in zip(short_names(runs), runs, flats, strict=True)
    ]
    same = [[name.replace("_", " "), setting_text(flats[0][name])] for name in flats[0] if name not in (*names, "out")]
    return [
        {"kind": "table", "caption": "Runs, and the settings in which they differ", "columns": columns, "rows": rows},
        {
            "kind": "table",
            "caption": "Made by",
            "columns": [*MADE_BY, "runs"],
            "rows": _makers(runs),
        },
        {
            "kind": "table",
            "caption": f"The {len(same)} settings that all runs share",
            "columns": ["setting", "value"],
            "rows": same,
            "closed": True,
        },
    ]


def short_names(runs: Sequence[ReportRun]) -> list[str]:
    """The paths of runs below their common folder, so that the page shows no folders of this machine."""
    paths = [run.path.absolute() for run in runs]
    common = os.path.commonpath([path.parent for path in paths])
    return [str(path.relative_to(common)) for path in paths]


def _makers(runs: Sequence[ReportRun]) -> list[list[str]]:
    makers = [tuple(run.made_by.get(name, "not recorded") for name in MADE_BY) for run in runs]
    return [[*maker, str(makers.count(maker))] for maker in dict.fromkeys(makers)]


def _system(runs: Sequence[ReportRun]) -> Block:
    rows = []
    for name, run in zip(short_names(runs), runs, strict=True):
        last: Mapping[str, Any] = run.rows[-1] if run.rows else {}
        size = sum(file.stat().st_size for file in run.path.rglob("*") if file.is_file())
        rows.append(
            [
                name,
                f"{run.frames:,}",
                f"{last.get('updates', 0):,}",
                _duration(float(last.get("seconds", 0.0))),
                f"{last.get('frames_per_second', 0):,.0f}",
                f"{size / 1e6:,.1f} MB",
            ]
        )
    columns = ["run", "frames", "updates", "time", "frames per second since its start", "on disk"]
    return {"kind": "table", "caption": "Work and time", "columns": columns, "rows": rows, "closed": len(rows) > 12}


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"
