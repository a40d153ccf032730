"""A process that runs units for `executors.Processes`: JSON lines in, outcomes as JSON lines out.

It ends when its standard input closes, as it does when the runner is killed: nothing is left running.
"""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import sys
import threading

from masp.experiments import provenance
from masp.experiments.compilation import keep_compiled_programs
from masp.experiments.plan import unit_from_json
from masp.experiments.store import Store
from masp.experiments.work import run_unit, tune_for


def main() -> None:
    store_path, command, cores = sys.argv[1:]
    os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    # Whatever a library prints must not end up among the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    provenance.commit()  # of the source that runs here, not of what it may be when a unit ends
    store = Store(store_path)
    keep_compiled_programs(store)
    while True:
        unit = unit_from_json(json.loads(lines.get()))
        tune_for(unit)
        outcome = run_unit(unit, store, command)
        print(json.dumps(dataclasses.asdict(outcome)), file=answers, flush=True)


def _listen(lines: queue.Queue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
