"""Mine macros from a Minari data set and train with them.

Any local Minari data set with discrete actions will do: `masp.mine_macros("minari:ID")`, or the path of its folder.
Here we record one first, because examples download nothing. Needs: pip install 'masp-rl[minari]'
"""

import tempfile
from pathlib import Path

import masp
from masp.cli.main import main

with tempfile.TemporaryDirectory() as folder:
    data, runs = Path(folder) / "pole-play", Path(folder) / "runs"
    record = ["record", "CartPole-v1", "--policy", "random", "--episodes", "60", "--minari", str(data)]
    main([*record, "--out", f"{folder}/play.jsonl"])  # what `masp record CartPole-v1 ...` does

    macros = masp.mine_macros(str(data), k=4, max_length=4, top_scoring=0.25)
    print(f"mined {len(macros.macros)} macros from {data.name}:")
    for macro in macros.macros:
        print(" ", macro.actions, f"seen {macro.count} times")

    run = masp.train("CartPole-v1", macros=macros, frames=4000, eval_every_frames=0, eval_episodes=8, out=runs / "pole")
    print(run)
    print("the agent decides among", len(run.actions), "actions")
