"""Options of the planted tasks that cannot be."""

import pytest

from masp.environments import make_env
from masp.errors import UserError


@pytest.mark.parametrize(
    ("env", "option", "message"),
    [
        ("planted-grid", "size=1", "planted-grid: size must be at least 2, got 1"),
        ("planted-grid", "max_steps=0", "max_steps must be at least 1, got 0"),
        ("planted-grid", "copies=0", "copies must be at least 1, got 0"),
        ("planted-grid", "order_seed=-1", "order_seed must be at least 0, got -1"),
        ("planted-bandit", "contexts=0", "contexts must be at least 1, got 0"),
        ("planted-bandit", "groups=0", "groups must be at least 1, got 0"),
        ("planted-bandit", "pay_good=1.5", r"pay_good must be in \[0, 1\], got 1.5"),
        ("planted-bandit", "pay_bad=-1", r"pay_bad must be in \[0, 1\], got -1"),
    ],
)
def test_refused_with_a_clear_line(env, option, message):
    with pytest.raises(UserError, match=message):
        make_env(env, [option])
