"""What each column of the metrics means: for `masp plot RUN_DIR --metric help` and the page `reference/metrics`."""

from __future__ import annotations

METRICS: dict[str, str] = {
    "frames": "frames played so far",
    "updates": "updates made so far",
    "seconds": "since training began or went on",
    "frames_per_second": "since training began or went on",
    "episodes": "training episodes that ended",
    "return": "of training episodes, exploration included",
    "success": "share of training episodes that succeeded",
    "episode_steps": "length of training episodes",
    "decision_steps": "steps per decision since the beginning: above 1, macros are used",
    "demonstrated_steps": "steps of demonstrations that were learned from, beside the agent's own",
    "td_loss": "the loss without the penalty",
    "penalty": "the penalty with its weight",
    "gradient_norm": "of the whole loss, before clipping",
    "meta_gradient_norm": "of the similarity; 0 in updates without a meta-step",
    "q_mean": "mean value in batches",
    "q_max": "mean of the best action's value in batches",
    "q_spread": "standard deviation over the actions of a state, mean over batches",
    "similarity_mean": "of all pairs of actions",
    "similarity_std": "of all pairs; near 0, nothing was learned yet",
    "similarity_auc": "chance that a pair of the same true group is more similar than a pair of different groups: 0.5 "
    "is chance, 1 perfect",
    "eval_return": "of evaluation episodes, without noise and greedy but for --eval-epsilon",
    "eval_success": "share of evaluation episodes that succeeded",
    "eval_episode_steps": "length of evaluation episodes",
}
"""Column to its meaning."""

EFFECTS: dict[str, str] = {
    "predicted_return": "value of the best action in the first state of evaluation episodes: what the agent expects",
    "discounted_return": "what these episodes brought, as the agent counts it: discounted per step, rewards clipped "
    "where learning clips them, up to the first lost life where that counts",
    "overestimation": "the former minus the latter. What comes after a time limit counts as 0 but is expected, so "
    "tasks with time limits show more than there is",
    "q_spread_within": "standard deviation of values within a group of actions: what the penalty is to make small",
    "q_spread_between": "the same of the groups' means: what must stay, or the agent cannot tell good from bad. A "
    "penalty that helps lowers the first and not the second",
    "clusters": "how many groups these are: the true ones where the task has them, otherwise found in the learned "
    "similarity; blank without a penalty. It means something only when similarity_std has grown",
    "macro_lead": "best macro's value minus best primitive's. A macro is worth at most its first step followed by the "
    "best, so above 0 is over-estimation of macros, and far below 0 means that they are not wanted",
    "macro_share": "share of decisions that are macros, random ones included",
    "effective_actions": "exp of the entropy of the decisions: 1 is always the same action, the number of actions is "
    "all equally often",
    "effective_neighbours": "the same of a row of the row-stochastic similarity, mean over actions: 1 is the identity, "
    "the number of actions a plain average. It should come near the size of a group",
}
"""Columns that say what the penalty does, on the values of 64 states from the replay, without noise."""

LISTS: dict[str, str] = {
    "decisions": "how often each action was decided on; their sums over a run are usage.json",
    "rewards": "undiscounted reward of training episodes while each action was under way: whether it is macros that "
    "earn",
    "advantage": "value of each action minus the mean of all actions of the state, mean over states. An action that is "
    "tried often at a negative advantage is tried by chance",
}
"""One number per action; in metrics.jsonl only."""
