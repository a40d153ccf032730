"""Act with a trained agent in a loop of your own.

`masp.load_agent` needs the run directory, or only its policy file, and no environment. It returns primitive actions and
plays a macro to its end before it decides again.
"""

import tempfile

import gymnasium

import masp

with tempfile.TemporaryDirectory() as folder:
    masp.train("CartPole-v1", variant="macros", frames=4000, eval_every_frames=0, out=f"{folder}/run")
    agent = masp.load_agent(f"{folder}/run")

# One environment.
env = gymnasium.make("CartPole-v1")
observation, _ = env.reset(seed=0)
print("values of all actions:", agent.values(observation).round(2))
steps, ended = 0, False
while not ended:
    observation, _, terminated, truncated, _ = env.step(agent.act(observation))
    steps, ended = steps + 1, terminated or truncated
print(f"one episode of {steps} steps")

# Several environments, each at its own position in its own macro.
envs = gymnasium.make_vec("CartPole-v1", num_envs=4)
observations, _ = envs.reset(seed=0)
agent.reset()
episodes = 0
for _ in range(100):
    observations, _, terminated, truncated, _ = envs.step(agent.act_batch(observations))
    agent.reset(terminated | truncated)
    episodes += int((terminated | truncated).sum())
print(f"{episodes} episodes in 4 environments")
