from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.net.file_limit import MOST_FILES

SCRIPT = """
import resource
from penstock.net.file_limit import raise_file_limit
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(raise_file_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "outcome"),
    [(64, 300, [300, 300, 300]), (200, 200, [200, 200, 200])],
    ids=["raised", "as it is"],
)
def test_a_process_may_open_what_the_system_allows(soft: int, hard: int, outcome: list[int]) -> None:
    script = SCRIPT.format(soft=soft, hard=hard)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert [int(each) for each in done.stdout.split()] == outcome


def test_there_is_an_upper_limit() -> None:
    code = "from penstock.net.file_limit import raise_file_limit; print(raise_file_limit())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout) <= MOST_FILES
