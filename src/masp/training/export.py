"""The bundle of a run with its card, or a bundle file: what the commands that show, export and share start from."""

from __future__ import annotations

import dataclasses
from importlib.metadata import version
from pathlib import Path

import masp
from masp.errors import UserError
from masp.json_text import is_number
from masp.similarity.bundle import Bundle, load_bundle
from masp.similarity.card import MAX_ENTRIES, Card
from masp.training.run_dir import RunDir


def open_bundle(source: str | Path, note: str = "") -> Bundle:
    """The bundle of a run directory, with the card of that run, or a bundle as it is; `note` is added to the card."""
    path = Path(source)
    if not path.exists():
        raise UserError(f"{source}: there is no such run directory or bundle")
    bundle = _of_run(path) if path.is_dir() else load_bundle(path)
    return bundle._replace(card=dataclasses.replace(bundle.card, note=note)) if note else bundle


def _of_run(path: Path) -> Bundle:
    run = RunDir(path)
    config = run.read_config()
    if not run.bundle_file.exists():
        raise UserError(f"{path}: the run has no similarity yet; it is written when training ends")
    row = run.read_summary() if run.finished else (run.read_metrics() or [{}])[-1]
    figures = {name: value for name, value in row.items() if is_number(value) and not name.endswith("seconds")}
    versions = {"masp": masp.__version__} | {name: version(name) for name in ("jax", "numpy")}
    card = Card(
        config.env,
        config.variant,
        int(figures.pop("frames", 0)),
        config.seed,
        dict(list(figures.items())[:MAX_ENTRIES]),
        versions,
    )
    return load_bundle(run.bundle_file)._replace(card=card)
