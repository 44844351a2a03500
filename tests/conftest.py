import gc
import os
import signal
import tempfile
from collections.abc import Generator

import pytest
from hypothesis import settings

from tests.effort import THOROUGH, examples

# Assertions in helper modules should explain their failures as in tests.
pytest.register_assert_rewrite("tests.clients.cases", "tests.clients.stage")
pytest.register_assert_rewrite("tests.stream.running", "tests.stream.fold")

# A shell starts a background job with SIGINT ignored, and the processes of the tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Local runs look for new examples; CI must give the same result for the same code every time.
same = bool(os.environ.get("CI"))
# A busy machine must not fail a test, so there are no deadlines.
settings.register_profile("fast", max_examples=examples(100), derandomize=same, deadline=None)
settings.register_profile("thorough", max_examples=100, derandomize=same, deadline=None)
settings.load_profile("thorough" if THOROUGH else "fast")


def pytest_configure(config: pytest.Config) -> None:
    """Commands and hosts store learned limits in the user's state folder: never in the real one."""
    folder = tempfile.TemporaryDirectory(prefix="penstock-state-")
    config.add_cleanup(folder.cleanup)
    os.environ["XDG_STATE_HOME"] = folder.name


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing that is imported or collected becomes garbage, so the garbage collector need not look at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
