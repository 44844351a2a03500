from __future__ import annotations

from bench.figures import Figure
from bench.layers import measure, rows

LAYERS = {
    "decode": 1.0,
    "translate, many chunks per read": 4.0,
    "translate, one chunk per read": 6.0,
}


def test_the_rest_is_what_translation_and_kernel_leave() -> None:
    flood = Figure("flood", "flood", "ms", {"penstock": [20.0]})
    found = dict(rows(LAYERS, {"flood": flood}, {"flood penstock": 0.25}))
    assert found == {
        "decoding its JSON with msgspec, nothing else": "1",
        "**flood: all**": "**20**",
        "flood: translation, from bytes to frames": "4",
        "flood: kernel (sockets, wake-ups)": "5",
        "flood: the rest (event loop, HTTP, turn, log)": "11",
    }


def test_the_translation_can_be_measured_with_public_names() -> None:
    assert measure().keys() == LAYERS.keys()
