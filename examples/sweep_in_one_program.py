"""Train several settings with several seeds in one compiled program, and compare them.

Where the environment is in JAX, runs that differ in penalty_weight, meta_learning_rate, similarity_start, macros or
seed are lanes of one program, which is compiled once. Other settings are trained one after another.
"""

import statistics
import tempfile

import masp

with tempfile.TemporaryDirectory() as folder:
    points = masp.sweep(
        "planted-bandit",
        vary={"meta_learning_rate": [0.0, 0.01]},
        seeds=3,
        out=folder,
        frames=12_000,
        eval_every_frames=0,
    )
    for point in points:
        scores = [result.summary["similarity_auc"] for result in point.results]
        print(f"{point.settings}: groups found (AUC) {statistics.mean(scores):.3f} over {len(scores)} seeds")
    print("one of the runs:", masp.load_run(points[-1].results[0].run_dir))
