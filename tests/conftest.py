import os

import pytest
from hypothesis import settings

# The helpers that assert should explain their failures as tests do.
pytest.register_assert_rewrite("tests.stream.running", "tests.stream.fold")

# A person's run looks for new examples; a build says the same of the same code every time.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
