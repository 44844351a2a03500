"""Counting tokens offline: exact where the tokenizer is known, calibrated by real usage where it is not.

`counter.py` is the surface. `encodings.py` says which tokenizer a model has, `tokenizer.py` runs it;
`media.py` and `schemas.py` know what is not text; `calibration.py` learns from what turns really
cost. The tokenizer is loaded with the first count.
"""
