"""The protocol of every competitor's script: after warming up, run one turn for every line on standard input.

It prints one JSON object per line: first the steps and updates of a turn, then the seconds of each turn. Between turns
it sleeps, so that competitors can take turns on one machine.
"""

import json
import sys
import time


def serve(turn, steps, updates):
    """Serve turns; `turn()` plays `steps` steps and makes `updates` updates."""
    print(json.dumps({"steps": steps, "updates": updates}), flush=True)
    for _ in sys.stdin:
        started = time.perf_counter()
        turn()
        print(json.dumps({"seconds": time.perf_counter() - started}), flush=True)
