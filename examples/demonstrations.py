"""Learn from demonstrations: record a planner at play, mine macros from the recording, and train with both.

The recording holds actions and seeds; masp plays it again in the observations of the run, here those of the whole grid.
"""

import tempfile

import masp
from masp.cli.main import main

TASK = "DoorKey-5x5"

with tempfile.TemporaryDirectory() as folder:
    play, macros = f"{folder}/solved.jsonl", f"{folder}/macros.json"
    main(["record", TASK, "--policy", "solver", "--episodes", "10", "--out", play])
    main(["mine", play, "--k", "4", "--min-length", "2", "--max-length", "4", "--out", macros])
    run = masp.train(
        TASK,
        variant="macros",
        macros=macros,
        env_options={"view": "whole"},
        demonstrations=play,  # a quarter of every batch, and 20 updates before the first step
        demonstration_updates=20,
        frames=600,
        min_replay_steps=300,
        num_envs=4,
        log_every_frames=300,
        eval_every_frames=300,
        eval_episodes=4,
        out=f"{folder}/run",
    )
    print(f"{run.summary['demonstrated_steps']} demonstrated steps beside {run.summary['frames']} of its own")
    print("before its first step of learning:", run.metrics[0]["eval_success"])
    print("at the end:", run.summary["eval_success"])
