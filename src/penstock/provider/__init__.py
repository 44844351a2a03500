"""The Language Model provider for any OpenResponses endpoint: translate, request, adapt, track.

`provider.py` is the entry point, `editor_turn.py` streams one response to the editor, `options.py` maps an
editor's options to request fields, `tracker.py` records usage, `wording.py` words the numbers in errors, and
`loop.py` is a consumer: it runs tools and continues until the model has answered.
"""
