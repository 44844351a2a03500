"""Dialects: the languages of upstreams. Each is read into deltas and rendered from a plan.

`plan.py` is the contract. `pipeline.py` joins a reader and the state machine. A vendor that speaks a known
dialect with quirks is a row in `presets`, not a new dialect; dialects do not know each other.
"""
