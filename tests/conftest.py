"""Settings for all tests."""

import hypothesis

# Examples are drawn from a fixed seed and no time is measured: the same tests everywhere, on slow machines too.
hypothesis.settings.register_profile("masp", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("masp")


def pytest_configure(config):
    """rlax announces a deprecation on every call of its cross entropy; nothing of ours is meant."""
    config.addinivalue_line("filterwarnings", "ignore::PendingDeprecationWarning:rlax.*")
