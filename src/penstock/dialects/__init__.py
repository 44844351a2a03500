"""Dialects: the API formats of upstreams. Each one reads a stream into deltas; some also render requests.

`plan.py` is the contract. `pipeline.py` connects a reader to the state machine. A vendor that uses a known
dialect with quirks is a row in `presets`, not a new dialect. Dialects do not import each other.
"""
