"""From an environment of one's own to transfer, in about ten minutes on two cores; docs/tutorial.md walks through it.

  python examples/tutorial.py --out tutorial

writes runs, two report pages, pictures and `results.json` to a new folder. `--frames 2000 --seeds 1 --episodes 50`
takes a minute and shows only that everything works.
"""

import argparse
import json
from pathlib import Path

import gymnasium
import matplotlib
import numpy as np
from matplotlib import pyplot

import masp
from masp.cli.main import main as masp_command
from masp.report.figures import colour_of
from masp.report.statistics import bootstrap_interval

ARMS = {"six": ("rainbow", "macros", "masp"), "eight": ("anew", "similarity", "agent")}
"""Task to what is compared there."""
LIKE = {"anew": "masp", "similarity": "transfer", "agent": "prior"}
"""Columns of masp's own pictures whose colours the arms of the second task have."""
Curves = dict[str, tuple[np.ndarray, np.ndarray]]

# --8<-- [start:environment]
FORWARD, KEY, LEFT, RIGHT = range(4)
CODE = (KEY, LEFT, LEFT, FORWARD)


class Doors(gymnasium.Env):
    """A corridor of locked doors, of which only the last one pays.

    Each opens by key, left, left, forward; a wrong action takes the key out again.
    """

    def __init__(self, doors: int = 6, limit: int = 100):
        self.doors, self.limit = doors, limit
        self.opened = self.turned = self.time = 0
        self.observation_space = gymnasium.spaces.Box(0, 1, (12,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.opened = self.turned = self.time = 0
        return self.observation(), {}

    def step(self, action):
        self.time += 1
        right = action == CODE[self.turned]
        self.turned = self.turned + 1 if right else int(action == KEY)
        if self.turned == len(CODE):
            self.opened, self.turned = self.opened + 1, 0
        out, late = self.opened == self.doors, self.time == self.limit
        return self.observation(), float(out), out, late, {"success": out}

    def observation(self):
        """[12]: which door this is (of at most 8), how far its lock has turned."""
        seen = np.zeros(12, np.float32)
        seen[min(self.opened, 7)] = seen[8 + self.turned] = 1
        return seen


# --8<-- [end:environment]
# --8<-- [start:mine]
def mine(out: Path, episodes: int) -> Path:
    """Random play with one door, and what its successful episodes have in common."""
    play, macros = out / "play.jsonl", out / "macros.json"
    easy = "tutorial:Doors --env-options doors=1"
    command("record", easy, "--policy random --episodes", episodes, "--out", play)
    command("mine", play, "--only-successful --k 8 --min-length 4 --out", macros)
    return macros


# --8<-- [end:mine]
# --8<-- [start:train]
def train(out: Path, macros: Path, seeds: range, frames: int) -> None:
    """Six doors: primitives alone, macros as actions like all others, MASP."""
    for seed in seeds:
        for variant in ("rainbow", "macros", "masp"):
            own = {} if variant == "rainbow" else {"macros": macros}
            task = {"variant": variant, "env_options": {"doors": 6}}
            run(out / f"{variant}-{seed}", frames, seed, **task, **own)


# --8<-- [end:train]
# --8<-- [start:transfer]
FROZEN = {"meta_learning_rate": 0.0}


def transfer(out: Path, source: Path, macros: Path, seeds: range, frames: int) -> None:
    """Eight doors: begin anew, with the similarity of six doors, or with the agent."""
    for seed in seeds:
        bundle = source / f"masp-{seed}/similarity.safetensors"
        starts = {
            "anew": {"macros": macros},
            "similarity": {"macros": bundle, "similarity_start": bundle, **FROZEN},
            "agent": {"init_from": source / f"masp-{seed}"},
        }
        for name, start in starts.items():
            task = {"variant": "masp", "env_options": {"doors": 8}}
            run(out / f"{name}-{seed}", frames, seed, **task, **start)


# --8<-- [end:transfer]
def run(out: Path, frames: int, seed: int, **settings) -> None:
    """One run, short for a small network, evaluated twenty times."""
    short = {"hidden": 64, "min_replay_steps": min(1000, frames // 2), "epsilon_decay_steps": frames // 2}
    rows = {"log_every_frames": frames // 20, "eval_every_frames": frames // 20}
    print(masp.train(Doors, frames=frames, seed=seed, out=out, **short, **rows, **settings), flush=True)


def command(*words) -> None:
    """A `masp` command as on the command line."""
    line = [part for word in words for part in (str(word).split() if isinstance(word, str) else [str(word)])]
    print("$ masp", *line, flush=True)
    if masp_command(line) != 0:
        raise SystemExit("the command failed")


def curves(out: Path, names: tuple[str, ...], seeds: range) -> Curves:
    """Name to the frames [E] of its evaluations and the share of episodes won [S, E]."""
    found = {}
    for name in names:
        runs = [masp.load_run(out / f"{name}-{seed}").metrics for seed in seeds]
        rows = [[row for row in metrics if row["eval_success"] is not None] for metrics in runs]
        won = np.array([[row["eval_success"] for row in evaluations] for evaluations in rows])
        found[name] = np.array([row["frames"] for row in rows[0]]), won
    return found


def picture(file: Path, title: str, success: Curves) -> None:
    """The mean over seeds, one line per name, in the colours of masp's own pictures."""
    matplotlib.use("agg")
    figure, axis = pyplot.subplots(figsize=(6.4, 3.4), layout="constrained")
    for name, (frames, won) in success.items():
        label, colour = name if won.any() else f"{name} (never)", colour_of(LIKE.get(name, name))
        axis.plot(frames, won.mean(0), label=label, color=colour, linewidth=2)
    axis.set(title=title, xlabel="frames", ylabel="share of episodes won", ylim=(-0.03, 1.03))
    axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def measures(success: Curves) -> dict[str, dict[str, list[float]]]:
    """Mean over seeds and its 95 % interval, of the mean over the run and of the last evaluation."""
    of = {"run": lambda won: won.mean(1), "last": lambda won: won[:, -1]}
    return {
        measure: {
            name: [round(float(x), 3) for x in (value(won).mean(), *bootstrap_interval(value(won)))]
            for name, (_, won) in success.items()
        }
        for measure, value in of.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="tutorial", type=Path, help="a new folder")
    parser.add_argument("--frames", type=int, default=20_000, help="per run")
    parser.add_argument("--seeds", type=int, default=5, help="per variant")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=500, help="of recorded play")
    args = parser.parse_args()
    args.out.mkdir(parents=True)
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    macros = mine(args.out, args.episodes)
    train(args.out / "six", macros, seeds, args.frames)
    command("report", args.out / "six", "--out", args.out / "six.html")
    transfer(args.out / "eight", args.out / "six", macros, seeds, args.frames)
    command("report", args.out / "eight", "--out", args.out / "eight.html")
    results: dict[str, object] = {"frames": args.frames, "seeds": list(seeds)}
    for task, names in ARMS.items():
        success = curves(args.out / task, names, seeds)
        picture(args.out / f"{task}.png", f"{task} doors, mean of {args.seeds} seeds", success)
        results[task] = measures(success)
    (args.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
