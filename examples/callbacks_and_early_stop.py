"""Watch a run while it trains, and stop it when it is good enough.

A callback overrides the moments that it needs; `on_row`, `on_evaluation` and `on_checkpoint` may return True to stop.
`masp.TensorBoard`, `masp.WandB` and `masp.MLflow` are callbacks too.
"""

import tempfile

import masp


class PrintEvaluations(masp.Callback):
    """Prints one line per evaluation."""

    def on_evaluation(self, run, row):
        print(f"{row['frames']:>7,} frames: return {row['eval_return']:.2f}")

    def on_end(self, run, summary):
        print(f"{run.path.name} is done")


with tempfile.TemporaryDirectory() as folder:
    run = masp.train(
        "planted-bandit",
        callbacks=[PrintEvaluations(), masp.EarlyStopping(target=0.95, patience=5)],
        frames=60_000,
        log_every_frames=2_000,
        eval_every_frames=2_000,
        out=f"{folder}/bandit",
    )
    print(run)
    print(f"stopped after {run.summary['frames']:,} of {run.config.frames:,} frames")
