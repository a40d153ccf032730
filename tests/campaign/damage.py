"""Flip bits of the files of a run, cut them off, and blank parts of them; every reader must find it.

    python tests/campaign/damage.py --damages 1000 --seed 0

Damages the two checkpoints, the parts of the replay's log that they use, the policies and the bundle of a tiny run.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from kill_and_resume import ENVIRONMENTS, SETTINGS, newest_tick

from masp.config import TrainConfig, from_flat
from masp.errors import UserError
from masp.similarity.bundle import load_bundle
from masp.training import array_file, session
from masp.training.lanes import lane_actions
from masp.training.loop import make_loop
from masp.training.run_dir import RunDir
from masp.training.train import train

KINDS = ("flipped bit", "truncation", "blank")


def tiny_run(out: Path) -> TrainConfig:
    """Train a run with several checkpoints."""
    settings = {**SETTINGS, **ENVIRONMENTS["planted-grid"], "env": "planted-grid", "frames": 1800, "out": str(out)}
    session.CHECKPOINT_SECONDS, session.CHUNK_SECONDS = 0.0, 0.05
    config = from_flat(settings).resolved()
    train(config)
    return config


def readers_of(config: TrainConfig) -> dict[Path, tuple[int, Callable[[], Any]]]:
    """Every file that a run goes on from or that is used after it: bytes that count, and how it is read."""
    run, loop = RunDir(config.out), make_loop(config)
    actions = lane_actions([config], loop.agent.info)
    state = loop.init([config], actions)
    (template,), shape, dtype = loop.checkpoints(state), loop.ring_shape(state), loop.agent.info.observation_dtype
    policy = jax.eval_shape(loop.agent.policy_template)
    tick, checkpoints = newest_tick(run.path), run.checkpoints

    def resume() -> None:
        checkpoints.load(tick, template, np.zeros(shape, dtype))

    def read_policy(file: Path) -> None:
        array_file.fill(policy, array_file.read(file)[0], file)

    files: dict[Path, tuple[int, Callable[[], Any]]] = {}
    for file in (run.policy_file, run.best_file):
        files[file] = file.stat().st_size, lambda file=file: read_policy(file)  # type: ignore[misc]
    files[run.bundle_file] = run.bundle_file.stat().st_size, lambda: load_bundle(run.bundle_file)
    files[checkpoints.file(tick)] = checkpoints.file(tick).stat().st_size, resume
    about = array_file.read_about(checkpoints.file(tick))
    assert about is not None
    for entry in about["replay"]:
        files[checkpoints.folder / entry["file"]] = entry["bytes"], resume
    return files


def damaged(content: bytes, used: int, kind: str, rng: random.Random) -> bytes:
    """`content`, whose first `used` bytes count, with one damage."""
    at = rng.randrange(used)
    if kind == "truncation":
        return content[:at]
    if kind == "blank":
        size = min(rng.choice((1, 16, 512, 4096)), used - at)
        return content[:at] + bytes(size) + content[at + size :]
    return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]


def campaign(damages: int, seed: int) -> Counter[tuple[str, str, bool]]:
    """How many damages there were by file, kind, and whether they were found."""
    rng, tally = random.Random(seed), Counter[tuple[str, str, bool]]()
    with tempfile.TemporaryDirectory() as folder:
        files = readers_of(tiny_run(Path(folder) / "run"))
        for _, read in files.values():
            read()
        while tally.total() < damages:
            path, kind = rng.choice(list(files)), rng.choice(KINDS)
            used, read = files[path]
            content = path.read_bytes()
            worse = damaged(content, used, kind, rng)
            if worse == content:  # zeros that were zeros before
                continue
            path.write_bytes(worse)
            try:
                read()
                found = False
            except UserError as error:
                found = "\n" not in str(error)
            path.write_bytes(content)
            tally[path.name.partition("-")[0].partition(".")[0], kind, found] += 1
        for _, read in files.values():
            read()
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--damages", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    tally = campaign(args.damages, args.seed)
    for (name, kind, found), number in sorted(tally.items()):
        print(f"{name:12} {kind:12} {'found' if found else 'NOT FOUND'} {number:5}")
    found = sum(number for (_, _, found), number in tally.items() if found)
    print(f"{found} of {tally.total()} found")
    return 0 if found == tally.total() else 1


if __name__ == "__main__":
    sys.exit(main())
