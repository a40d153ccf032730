"""Transfer: take a similarity along to a related task, or go on with a whole agent."""

import tempfile

import masp

SETTINGS = {"frames": 3000, "log_every_frames": 1500, "eval_every_frames": 0, "eval_episodes": 8, "hidden": 16}

with tempfile.TemporaryDirectory() as folder:
    grid = masp.train("planted-grid", variant="masp", out=f"{folder}/grid", **SETTINGS)
    bundle = f"{folder}/grid/similarity.safetensors"

    # The same grid with a cliff, with the similarity of the first run, which no longer learns.
    cliff = {"env": "planted-grid", "variant": "masp", "env_options": {"cliff": True}, **SETTINGS}
    frozen = masp.train(
        **cliff, macros=bundle, similarity_start=bundle, meta_learning_rate=0.0, out=f"{folder}/similarity"
    )
    print("similarity unchanged:", bool((frozen.similarity == grid.similarity).all()))

    # The whole agent goes on: parameters, macros and similarity.
    agent = masp.train(**cliff, init_from=grid, out=f"{folder}/agent")
    first, last = agent.metrics[0], agent.metrics[-1]
    print(f"return before learning {first['eval_return']:.2f}, at the end {last['eval_return']:.2f}")
