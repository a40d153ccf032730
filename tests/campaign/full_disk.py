"""Let the disk be full at every write of a run, one after another: no checkpoint may be lost, and the run can go on.

    python tests/campaign/full_disk.py
    python tests/campaign/full_disk.py --every 7

A preloaded library, `failing_disk.c`, fails the n-th write, opening for writing, rename, fsync or mkdir below the run
directory with "no space left on device", and either all that follow (the disk stays full) or none (somebody made
room). For every n a tiny run is trained; it must end with one clear line, or as if nothing had happened. All
checkpoints that were whole before must still be whole, and the run, resumed with room on the disk, must end as one that
never met a full disk. Needs Linux and a C compiler. The loop is made once, so that its programs are compiled once.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def preload(folder: Path) -> None:
    """Compile the library and start this program again with it."""
    library = folder / "failing_disk.so"
    source = Path(__file__).with_name("failing_disk.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    raise SystemExit(subprocess.run([sys.executable, *sys.argv], env=environment).returncode)


def settings_of(out: Path) -> Any:
    from kill_and_resume import ENVIRONMENTS, SETTINGS

    from masp.config import from_flat

    changes = {"frames": 360, "log_every_frames": 180, "eval_every_frames": 360, "replay_steps": 150, "out": str(out)}
    return from_flat({**SETTINGS, **ENVIRONMENTS["planted-grid"], "env": "planted-grid", **changes}).resolved()


def share_the_loop() -> None:
    """Let all sessions use one loop, which holds compiled programs and nothing of a run; a checkpoint every chunk."""
    from masp.training import session

    loop = session.make_loop(settings_of(Path("unused")))
    session.make_loop = lambda config: loop
    session.CHUNK_SECONDS = 1e9
    session.CHECKPOINT_SECONDS = 0.0
    real = session.Session._advance

    def advance(self: Any, frames: int, learn: bool = True) -> None:
        """In steps of the same size each time, so that every run writes the same."""
        self._chunk_ticks = 60
        real(self, frames, learn)

    session.Session._advance = advance  # type: ignore[method-assign]


def whole_checkpoints(out: Path) -> list[int]:
    """Ticks of the checkpoints whose checksums fit."""
    import numpy as np

    from masp.errors import UserError
    from masp.training import array_file
    from masp.training.checkpoints import Checkpoints
    from masp.training.replay_log import _rows

    ticks, checkpoints = [], Checkpoints(out / "checkpoints")
    for tick in checkpoints.ticks():
        try:
            _, about = array_file.read(checkpoints.file(tick))
            for entry in about["replay"]:
                row = np.zeros((1, entry["bytes"] // max(entry["ticks"], 1)), np.uint8)
                _rows(checkpoints.folder / entry["file"], entry, row)
        except UserError:
            continue
        ticks.append(tick)
    return ticks


def rows_of(out: Path) -> list[dict[str, Any]]:
    clocks = ("seconds", "frames_per_second")
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name not in clocks} for row in rows]


def try_write(n: int, once: bool, out: Path, arm: Callable[..., None], expected: list[dict[str, Any]]) -> str:
    """One run whose n-th write fails; how it ended."""
    from masp.errors import UserError
    from masp.training import checkpoints as module
    from masp.training.train import train

    durable: list[int] = []
    real_save = module.Checkpoints.save

    def save(self: Any, tick: int, *more: Any) -> None:
        real_save(self, tick, *more)
        durable.append(tick)

    module.Checkpoints.save = save  # type: ignore[method-assign]
    arm(str(out).encode(), n, int(once))
    try:
        train(settings_of(out))
        ended = "went on"
    except UserError as error:
        assert "\n" not in str(error) and "cannot write" in str(error), error
        ended = "one line"
    except OSError as error:  # outside a session, as `masp train` shows it: in one line
        ended = f"one line ({type(error).__name__})"
    finally:
        arm(b"", -1, 0)
        module.Checkpoints.save = real_save  # type: ignore[method-assign]
    whole = whole_checkpoints(out)
    assert not durable or durable[-1] in whole, f"write {n}: the checkpoint of tick {durable[-1]} is lost"
    assert not list(out.rglob("*.partial")), f"write {n}: a partial file stays"
    if ended != "went on" or not (out / "summary.json").exists():
        train(settings_of(out), resume=out.exists())
    assert rows_of(out) == expected, f"write {n}: the resumed run ended otherwise"
    return ended


def campaign(every: int, folder: Path, tell: Callable[[str], None]) -> int:
    """All runs; the number of writes of one."""
    from masp.training.train import train

    library = ctypes.CDLL(None)
    library.disk_arm.argtypes = (ctypes.c_char_p, ctypes.c_long, ctypes.c_int)
    library.disk_calls.restype = ctypes.c_long
    share_the_loop()
    out = folder / "run"
    library.disk_arm(str(out).encode(), -1, 0)
    train(settings_of(out))
    writes, expected = library.disk_calls(), rows_of(out)
    tell(f"a run makes {writes} writes and keeps {len(whole_checkpoints(out))} checkpoints")
    for once in (False, True):
        ends: dict[str, int] = {}
        for n in range(0, writes, every):
            shutil.rmtree(out)
            ended = try_write(n, once, out, library.disk_arm, expected)
            ends[ended] = ends.get(ended, 0) + 1
        kind = "that write only" if once else "from that write on"
        tell(f"full {kind}: {sum(ends.values())} runs, no checkpoint lost, all ended equal; {ends}")
    return int(writes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="try every so many-th write")
    args = parser.parse_args()
    fast = Path("/dev/shm")  # every write waits for the disk: a folder in memory saves most of the time
    with tempfile.TemporaryDirectory(dir=fast if fast.is_dir() else None) as folder:
        if not hasattr(ctypes.CDLL(None), "disk_arm"):
            preload(Path(folder))
        campaign(args.every, Path(folder).resolve(), lambda line: print(line, flush=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
