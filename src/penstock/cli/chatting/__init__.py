"""The parts of `penstock chat`.

`session.py` is the program on a terminal, `plain.py` the one in a pipe; both ask through `turns.py`. What a
model says becomes safe in `safety.py` and readable in `markdown.py`, `inline.py` and `tables.py`;
`showing.py` tells `screen.py` of it. `tools.py` makes tools of a Python file, `conversation.py` keeps what
was said, `commands.py` has the lines with a slash.
"""
