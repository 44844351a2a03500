import pytest

# The helpers that assert should explain their failures as tests do.
pytest.register_assert_rewrite("tests.stream.running", "tests.stream.fold")
