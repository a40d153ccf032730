"""Draw what the penalty does for the single-file agents of examples/, and print the figures of docs/interop.md.

python examples/dqn_purejaxrl.py --copies 1 --no-penalty --json DIR/jax-four.json
python examples/dqn_purejaxrl.py --no-penalty --json DIR/jax-plain.json
python examples/dqn_purejaxrl.py --meta-learning-rate 0 --json DIR/jax-constant.json
python examples/dqn_purejaxrl.py --meta-learning-rate 0 --start 0.074 --json DIR/jax-uniform.json
python examples/dqn_purejaxrl.py --json DIR/jax-penalty.json
The same with dqn_cleanrl_torch.py --seeds 5 --total-timesteps 30000 --exploration-steps 15000, --start 0.056 instead of
0.074 and --json DIR/torch-....json; then
python docs/figures/interop.py DIR
"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from masp.report.statistics import bootstrap_interval

ARMS = {
    "four": ("4 actions", "#1f3b73"),
    "plain": ("128 actions, no penalty", "#6fa8dc"),
    "constant": ("128 actions, penalty, similarity constant at its start", "#8c8c8c"),
    "uniform": ("128 actions, penalty, similarity constant at the learned mean", "#e0a030"),
    "penalty": ("128 actions, penalty, similarity learned", "#cc2936"),
}
PANELS = {"jax": "dqn_purejaxrl.py (JAX)", "torch": "dqn_cleanrl_torch.py (PyTorch)"}


def main(folder: Path) -> None:
    shown = {library: title for library, title in PANELS.items() if (folder / f"{library}-penalty.json").exists()}
    size = (4.2 * len(shown) + 0.8, 3.8)
    figure, (panels,) = plt.subplots(1, len(shown), figsize=size, sharey=True, layout="constrained", squeeze=False)
    for axes, (library, title) in zip(panels, shown.items(), strict=True):
        for arm, (label, colour) in ARMS.items():
            file = folder / f"{library}-{arm}.json"
            if not file.exists():
                continue
            data = json.loads(file.read_text())
            curves = np.array(data["success"])  # [seeds, windows]
            x = (np.arange(curves.shape[1]) + 0.5) * data["steps"] / curves.shape[1] / 1000
            bands = np.array([bootstrap_interval(window, samples=2000) for window in curves.T])
            axes.plot(x, curves.mean(axis=0), color=colour, label=label)
            axes.fill_between(x, bands[:, 0], bands[:, 1], color=colour, alpha=0.2, linewidth=0)
            final = curves[:, -curves.shape[1] // 6 :].mean(axis=1)
            low, high = bootstrap_interval(final)
            print(f"{library:6}{arm:10}{len(final)} seeds  {final.mean():.3f} [{low:.3f}, {high:.3f}]", final.round(3))
        axes.set(title=title, xlabel="thousand steps", ylim=(0, 1.02))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("success in training")
    figure.legend(
        *panels[0].get_legend_handles_labels(), frameon=False, fontsize=8, ncols=2, loc="outside lower center"
    )
    figure.savefig(Path(__file__).with_name("interop-rescue.png"), dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
