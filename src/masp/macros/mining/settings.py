"""What to look for in recorded play."""

from __future__ import annotations

from dataclasses import dataclass

from masp.errors import UserError


@dataclass(frozen=True)
class MiningSettings:
    """Which sequences become macros. The defaults give a useful set; `literal` gives the paper's."""

    k: int = 32
    """How many macros at most (paper: 32; 64 to 1024 in its ablation)."""
    min_length: int = 3
    """Shortest macro, in actions (paper: 3)."""
    max_length: int = 8
    """Longest macro, in actions (paper: 8)."""
    stride: int = 1
    """Take every stride-th action: the frame skip of the agent that will play the macros (Atari: 4)."""
    min_count: int = 2
    """A sequence seen less often is not considered."""
    keep_constant: bool = False
    """Also consider the same action over and over (an action repeat)."""
    keep_noop: bool = False
    """Also consider sequences of nothing but NOOP; they are constant runs too, so `keep_constant` is needed as well."""
    keep_contained: bool = False
    """Keep a macro that lies inside a chosen longer one which occurs nearly as often."""
    contained_ratio: float = 0.9
    """'Nearly as often': at least this share of the shorter one's count."""
    drop_same_effect: bool = False
    """Leave out a macro that differs from a chosen one, or from a primitive, in waiting only (leading and trailing
    NOOPs, the length of pauses). Off, because pressing after a wait and waiting after a press are both behaviour."""
    diverse: bool = True
    """Choose by how much play a macro adds to what the chosen ones cover, not by frequency alone. Waiting (NOOP) is
    not counted as play, unless `keep_noop`."""
    only_successful: bool = False
    """Use successful episodes only."""
    top_scoring: float | None = None
    """Use this share of the episodes, those with the highest scores; None: all."""

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
        """The paper's heuristic: the k most frequent subsequences, no sequence filtered."""
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
    def only_counts_matter(self) -> bool:
        """Whether the k most frequent candidates are the answer, so that no others need to be looked at."""
        return not self.diverse and self.keep_contained and not self.drop_same_effect
