"""Count tokens offline: exactly if the tokenizer is known, otherwise calibrated by real usage.

`counter.py` is the public interface. `encodings.py` chooses the tokenizer of a model, `tokenizer.py` runs it;
`media.py` and `schemas.py` count what is not text; `calibration.py` learns from the real usage of turns. The
tokenizer is loaded on the first count.
"""
