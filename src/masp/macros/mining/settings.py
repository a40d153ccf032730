"""Settings of mining."""

from __future__ import annotations

from dataclasses import dataclass

from masp.errors import UserError


@dataclass(frozen=True)
class MiningSettings:
    """Which sequences become macros. The defaults give a useful set; `literal` gives the paper's set."""

    k: int = 32
    """Maximum number of macros (paper: 32; 64 to 1024 in its ablation)."""
    min_length: int = 3
    """Shortest macro, in actions (paper: 3)."""
    max_length: int = 8
    """Longest macro, in actions (paper: 8)."""
    stride: int = 1
    """Take every stride-th action: the frame skip of the agent that will play the macros (Atari: 4)."""
    min_count: int = 2
    """Minimum number of occurrences of a macro."""
    keep_constant: bool = False
    """Allow macros that repeat one action."""
    keep_noop: bool = False
    """Allow macros of NOOPs only. They repeat one action, so `keep_constant` is required as well."""
    keep_contained: bool = False
    """Allow a macro that is contained in a longer macro of the set which occurs nearly as often."""
    contained_ratio: float = 0.9
    """'Nearly as often' means at least this share of the shorter macro's count."""
    drop_same_effect: bool = False
    """Drop a macro that differs from another, or from a primitive, only in waiting (leading and trailing NOOPs, the
    length of pauses). Off, because waiting before and waiting after an action are different behaviours."""
    diverse: bool = True
    """Select macros greedily by the additional rows of play that they cover, not by frequency alone. Rows of NOOP do
    not count unless `keep_noop`."""
    only_successful: bool = False
    """Use successful episodes only."""
    top_scoring: float | None = None
    """Use only this share of the episodes, those with the highest scores; None: all episodes."""

    def __post_init__(self) -> None:
        for name in ("k", "min_length", "stride", "min_count"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UserError(f"{name} must be a positive integer, got {value!r}")
        if isinstance(self.max_length, bool) or not isinstance(self.max_length, int):
            raise UserError(f"max_length must be a positive integer, got {self.max_length!r}")
        if self.max_length < self.min_length:
            raise UserError(f"max_length {self.max_length} is below min_length {self.min_length}")
        if not 0 < self.contained_ratio <= 1:
            raise UserError(f"contained_ratio must be above 0 and at most 1, got {self.contained_ratio}")
        if self.top_scoring is not None and not 0 < self.top_scoring <= 1:
            raise UserError(f"top_scoring is a share of the episodes, above 0 and at most 1, got {self.top_scoring}")

    @classmethod
    def literal(
        cls,
        k: int = 32,
        min_length: int = 3,
        max_length: int = 8,
        stride: int = 1,
        only_successful: bool = False,
        top_scoring: float | None = None,
    ) -> MiningSettings:
        """The paper's heuristic: the k most frequent subsequences, without filters."""
        return cls(
            k=k,
            min_length=min_length,
            max_length=max_length,
            stride=stride,
            only_successful=only_successful,
            top_scoring=top_scoring,
            min_count=1,
            keep_constant=True,
            keep_noop=True,
            keep_contained=True,
            diverse=False,
        )

    @property
    def is_top_k(self) -> bool:
        """Whether the result is simply the k most frequent candidates."""
        return not self.diverse and self.keep_contained and not self.drop_same_effect
