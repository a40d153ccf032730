"""What the report page costs: its time and size for 50 runs, how it scrolls, and memory of the live page.

    python benchmarks/report_page.py page            50 runs of 1 M frames with 128 actions, made up
    python benchmarks/report_page.py watch           10 runs that go on for 10 minutes

Prints JSON. Needs Chromium and the package websocket-client. `page`: processor seconds and megabytes; scrolled from top
to bottom, the milliseconds between frames, those of the main thread per frame and its tasks of more than 50 ms, beside
an empty page on the same machine. `watch`: memory of the server process and of the page's JavaScript after a forced
collection, every 20 seconds, and the slope of the second half. The server keeps the rows of the runs, so its memory
grows with them: `row_bytes` is what one takes.
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
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "report"))

from browser import Browser
from made_runs import action_set, make_run, metrics_row

from masp.report.page import write_report
from masp.report.page.runs import ReportRun

ROWS, MACROS = 1000, 124
START = 450
"""Rows of the runs that are watched: their curves have as many points already as they may have on the page."""
EMPTY = "data:text/html,<body style='height:20000px' data-ready=yes>"
SCROLL = """new Promise((done) => {
  const gaps = [], tasks = [];
  const observer = new PerformanceObserver((list) => list.getEntries().forEach((task) => tasks.push(task.duration)));
  observer.observe({ type: "longtask" });
  let last = 0;
  const step = (now) => {
    if (last) gaps.push(now - last);
    last = now;
    scrollBy({ top: 60, behavior: "instant" });
    if (scrollY + innerHeight < document.documentElement.scrollHeight - 2) requestAnimationFrame(step);
    else done({ gaps, tasks });
  };
  scrollTo({ top: 0, behavior: "instant" });
  requestAnimationFrame(step);
})"""


def page_cost(folder: Path) -> dict[str, Any]:
    """Write the page of 50 runs and scroll through it."""
    actions, paths = action_set(MACROS), []
    for task in ("size=9", "size=13"):
        for variant, seeds in (("rainbow", 5), ("macros", 10), ("masp", 10)):
            for seed in range(seeds):
                settings = {"rows": ROWS, "actions": actions, "env_options": (task,), "evaluate_every": 10}
                paths.append(make_run(folder / task / variant / str(seed), variant, seed, **settings))
    before = _processor_seconds()
    page = write_report(paths, folder / "page.html")
    seconds = _processor_seconds() - before
    browser = Browser(folder / "profile")
    try:
        browser.size(1280, 900)
        browser.call("Performance.enable")
        browser.open(EMPTY)
        empty = _scroll(browser)
        browser.open(page.as_uri())
        time.sleep(5)
        scrolled = [_scroll(browser) for _ in range(3)]
    finally:
        browser.close()
    about = {"runs": len(paths), "rows": ROWS, "actions": len(actions), "load": os.getloadavg()[0]}
    figures = {"processor_seconds": round(seconds, 1), "megabytes": round(page.stat().st_size / 1e6, 2)}
    return {**about, **figures, "scroll": scrolled, "scroll_empty_page": empty}


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _scroll(browser: Browser) -> dict[str, Any]:
    before = _main_thread_seconds(browser)
    measured = browser.run(SCROLL)
    busy, gaps = _main_thread_seconds(browser) - before, measured["gaps"]
    parts = {f"p{share}": round(float(np.percentile(gaps, share)), 1) for share in (50, 95, 99, 100)}
    return {
        "frames": len(gaps),
        "milliseconds_between_frames": parts,
        "main_thread_milliseconds_per_frame": round(1000 * busy / len(gaps), 2),
        "tasks_over_50_milliseconds": sorted(map(round, measured["tasks"])),
    }


def _main_thread_seconds(browser: Browser) -> float:
    metrics = browser.call("Performance.getMetrics")["metrics"]
    return next(entry["value"] for entry in metrics if entry["name"] == "TaskDuration")


def watch_cost(folder: Path, minutes: float, row_seconds: float) -> dict[str, Any]:
    """Append rows to ten runs while a page follows them."""
    actions, rng = action_set(MACROS), np.random.default_rng(0)
    paths = [make_run(folder / "runs" / str(seed), seed=seed, rows=START, actions=actions) for seed in range(10)]
    for path in paths:
        (path / "summary.json").unlink()
    code = "import sys; from masp.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "watch", str(folder / "runs")]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    browser = Browser(folder / "profile")
    samples, number, began = [], START, time.monotonic()
    try:
        browser.open(server.stdout.readline().split()[1])
        browser.call("HeapProfiler.enable")
        while (elapsed := time.monotonic() - began) < 60 * minutes:
            number += 1
            for path in paths:
                row = metrics_row(number, 2000, 1000 * number, actions, rng, 0.9, number % 2 == 0)
                with open(path / "metrics.jsonl", "a") as file:
                    file.write(json.dumps(row) + "\n")
            if elapsed >= 20 * len(samples):
                samples.append({"seconds": round(elapsed), "rows": 10 * number, **_memory(browser, server.pid)})
                print(json.dumps(samples[-1]), file=sys.stderr, flush=True)
            time.sleep(max(0.0, row_seconds * (number - START) - (time.monotonic() - began)))
        errors = browser.errors
    finally:
        browser.close()
        server.terminate()
        server.wait()
    half = samples[len(samples) // 2 :]
    slopes = {name: _slope(half, name) for name in ("server_megabytes", "page_megabytes", "elements", "listeners")}
    about = {"minutes": minutes, "rows": 10 * number, "row_bytes": _row_bytes(paths[0]), "errors": errors}
    return {**about, "per_minute_in_the_second_half": slopes, "first": samples[0], "last": samples[-1]}


def _memory(browser: Browser, pid: int) -> dict[str, Any]:
    browser.call("HeapProfiler.collectGarbage")
    heap = browser.call("Runtime.getHeapUsage")["usedSize"]
    counters = browser.call("Memory.getDOMCounters")
    resident = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return {
        "server_megabytes": round(int(resident.split()[1]) / 1024, 1),
        "page_megabytes": round(heap / 1e6, 2),
        "elements": counters["nodes"],
        "listeners": counters["jsEventListeners"],
    }


def _slope(samples: list[dict[str, Any]], name: str) -> float:
    minutes = [sample["seconds"] / 60 for sample in samples]
    return round(float(np.polyfit(minutes, [sample[name] for sample in samples], 1)[0]), 3)


def _row_bytes(path: Path) -> int:
    """Memory of one row of a run as the server keeps it."""
    import tracemalloc

    tracemalloc.start()
    run = ReportRun.open(path)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return round(size / len(run.rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("page", "watch"))
    parser.add_argument("--minutes", type=float, default=10.0, help="of watching (default: 10)")
    parser.add_argument("--row-seconds", type=float, default=10.0, help="from row to row of a run (default: 10)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        result = page_cost(path) if args.what == "page" else watch_cost(path, args.minutes, args.row_seconds)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
