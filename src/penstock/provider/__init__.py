"""The Language Model provider: translate, request, adapt, track, in front of any OpenResponses endpoint.

`provider.py` is the facade, `editor_turn.py` one response on its way, `options.py` what of an editor's
options goes into a request, `tracker.py` what was used, `loop.py` the other side: a consumer that runs tools
and goes on until there is an answer.
"""
