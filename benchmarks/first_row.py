"""Time from `masp train` to the first row of the metrics, with an empty program cache (cold) and a filled one (warm).

  python benchmarks/first_row.py planted-grid CartPole-v1

Processor time is that of the whole process, all threads together. Beside other work it grows too, so the ratio of warm
to cold says more than either.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = (sys.executable, "-c", "import sys; from masp.cli.main import main; sys.exit(main())", "train")


def processor_seconds() -> float:
    """Of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def first_row(env: str, out: Path, cache: Path) -> dict[str, float]:
    """Start a run, end it when its first row is there, and say what that took."""
    before, started = processor_seconds(), time.perf_counter()
    inherited = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    run = subprocess.Popen(
        [*COMMAND, env, "--out", str(out)],
        env=inherited | {"XDG_CACHE_HOME": str(cache)},
        stderr=subprocess.DEVNULL,
    )
    metrics = out / "metrics.jsonl"
    while not (metrics.exists() and metrics.stat().st_size):
        if run.poll() is not None:
            raise SystemExit(f"masp train {env} ended with exit code {run.returncode} before its first row")
        time.sleep(0.02)
    wall = time.perf_counter() - started
    run.kill()
    run.wait()
    return {"processor_seconds": round(processor_seconds() - before, 1), "wall_seconds": round(wall, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", nargs="+", help="environment ids")
    for env in parser.parse_args().env:
        with tempfile.TemporaryDirectory() as folder:
            figures = {name: first_row(env, Path(folder) / name, Path(folder) / "cache") for name in ("cold", "warm")}
        ratio = figures["warm"]["processor_seconds"] / figures["cold"]["processor_seconds"]
        print(json.dumps({"env": env, **figures, "ratio": round(ratio, 2), "load": round(os.getloadavg()[0], 1)}))


if __name__ == "__main__":
    main()
