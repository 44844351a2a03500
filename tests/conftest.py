import os

import pytest
from hypothesis import settings

from tests.effort import THOROUGH, examples

# The helpers that assert should explain their failures as tests do.
pytest.register_assert_rewrite("tests.stream.running", "tests.stream.fold")

# A person's run looks for new examples; a build says the same of the same code every time.
same = bool(os.environ.get("CI"))
settings.register_profile("fast", max_examples=examples(100), derandomize=same)
settings.register_profile("thorough", max_examples=100, derandomize=same)
settings.load_profile("thorough" if THOROUGH else "fast")
