"""Write RESULTS.md from the results store: `python docs/site/results.py` after a run of an experiment.

Each table is what `masp table NAME --scale laptop --markdown` prints, with one sentence that says what it shows. A test
compares the file with what this script makes, and the figures of the pages with the file.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from masp.experiments.store import Store
from masp.report.render import render
from masp.report.tables import build

ROOT = Path(__file__).resolve().parents[2]
SCALE = "laptop"
KEPT_NOTES = ("seeds per cell", "masp beats macros", "masp beats rainbow", "masp beats uniform")
SENTENCES = {
    "minigrid": "DoorKey-8x8 is learned with macros and not without; no similarity is clearly better than another; "
    "LockedRoom and ObstructedMaze-Full are not solved.",
    "structure-minigrid": "With mined macros in DoorKey-5x5 no similarity is clearly above plain macros.",
    "planted": "With 128 actions the learned similarity recovers more than half of what the many actions cost, the "
    "truth all of it.",
    "structure": "Where nothing is known of the actions the learned similarity beats every fixed control; with real "
    "macros their overlap does as well, and learning inside macros does more than any similarity.",
    "defaults": "At the presets `masp` is not below `macros` on any task; `masp` is what `--variant outcomes` is now.",
    "defaults-minatar": "At the presets `masp` is level with `macros` in Breakout and ahead in Space Invaders.",
    "minatar": "MinAtar at the settings of short runs.",
    "minatar-k": "More mined macros cost more, and with 1,024 the penalty, whose weight was that of a few dozen, does "
    "harm.",
    "minatar-noise": "Random sequences are no worse than mined ones here, so there is nothing to save from noise.",
    "minatar-transfer": "A similarity learned before helps in Breakout and not in Space Invaders.",
    "structure-minatar": "With swept weights the learned similarity makes up half of what macros cost in Breakout.",
    "atari": "A thirty-thousandth of the paper's frames shows that the experiment runs; every interval overlaps every "
    "other.",
}
HEAD = """# Results

Every table that was run, at the scale `laptop`, printed from the records in `results/` by
`python docs/site/results.py`. The verdicts are in [docs/reproduction.md](docs/reproduction.md). Brackets are 95 %
bootstrap intervals over seeds; of three seeds that is simply their range.

Records of before 2026-11-18 used earlier settings: penalty weights are for a sum over actions, and `masp` of
`defaults` on planted tasks is what `--variant outcomes` is now. `masp reproduce NAME --scale laptop` runs today's
definitions.
"""


def results() -> str:
    """The whole page."""
    store = Store(ROOT / "results")
    records, parts = store.records(), [HEAD]
    for name, sentence in SENTENCES.items():
        plan = store.read_plan(name, SCALE)
        if plan is None:
            continue
        for judged in ("last", "run"):
            table = build({**plan, "judged": judged}, records, ())
            lines = render(table, "markdown").splitlines()
            title, rows, notes = lines[0], [x for x in lines if x.startswith("|")], [x for x in lines if x[:2] == "- "]
            kept = [_wrapped(note, "  ") for note in notes if note[2:].startswith(KEPT_NOTES)]
            command = f"    masp table {name} --scale {SCALE} --judged {judged}"
            if judged == "last":
                parts.append(f"## {name}\n\n{_wrapped(sentence)}\n")
            parts.append("\n".join([_wrapped(title.split(" [")[0] + ":"), "", command, "", *rows, "", *kept, ""]))
    return "\n".join(parts).rstrip() + "\n"


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False)


if __name__ == "__main__":
    (ROOT / "RESULTS.md").write_text(results(), encoding="utf-8")
