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
        vary={"penalty_weight": [0.0, 1.0]},
        seeds=3,
        out=folder,
        frames=12_000,
        eval_every_frames=0,
    )
    for point in points:
        scores = [result.summary["eval_return"] for result in point.results]
        print(f"{point.settings}: return {statistics.mean(scores):.3f} over {len(scores)} seeds")
    best = max(points, key=lambda point: statistics.mean(r.summary["eval_return"] for r in point.results))
    print("a run of the better setting:", masp.load_run(best.results[0].run_dir))
