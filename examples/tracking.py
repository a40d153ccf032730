"""Send the metrics of a run to TensorBoard, Weights & Biases and MLflow, and film the agent at every evaluation.

The three trackers hold the same numbers under the same grouped tags, such as `evaluation/return`. On the command line:
masp train CartPole-v1 --track tensorboard --track wandb. Needs: pip install 'masp-rl[tensorboard,wandb,mlflow]'
"""

import tempfile
from pathlib import Path

import masp

with tempfile.TemporaryDirectory() as folder:
    run = masp.train(
        "CartPole-v1",
        variant="rainbow",
        frames=4000,
        eval_every_frames=0,
        eval_episodes=8,
        out=f"{folder}/pole",
        callbacks=[
            masp.TensorBoard(),
            masp.WandB(mode="offline"),
            masp.MLflow(uri=Path(folder, "mlruns").as_uri()),
            masp.Videos(),
        ],
    )
    print("TensorBoard:", len(list((run.path / "tensorboard").glob("events*"))), "file of events")
    print("W&B, for `wandb sync`:", len(list((run.path / "wandb").glob("offline-run-*"))), "run")
    print("MLflow:", len(list(Path(folder, "mlruns").rglob("metrics/evaluation/return"))), "curve of evaluation/return")
    print("videos:", [path.suffix for path in (run.path / "videos").iterdir()])
