"""Train with a network of your own.

A torso is a Flax module from observations [B, ...] to features [B, F]; the heads of the agent follow it. The run keeps
its class and fields, so `masp.load_run` and `masp.load_agent` find it again. On the command line:

  masp train CartPole-v1 --torso own_network:TwoLayers
"""

import tempfile

import flax.linen as nn
import jax.numpy as jnp

import masp


class TwoLayers(nn.Module):
    """Two layers with normalisation between them."""

    width: int = 64

    @nn.compact
    def __call__(self, observations):
        x = observations.reshape(observations.shape[0], -1).astype(jnp.float32)
        x = nn.relu(nn.LayerNorm()(nn.Dense(self.width)(x)))
        return nn.relu(nn.Dense(self.width)(x))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run = masp.train(
            "CartPole-v1", torso=TwoLayers(width=32), frames=4000, eval_every_frames=0, out=f"{folder}/run"
        )
        print(run)
        print("torso in config.json:", run.config.agent.torso)
        print("first layer:", run.params["torso"]["Dense_0"]["kernel"].shape)
