"""What is kept of turns: responses, their items, their event logs, conversations.

Start at `store`, the interface. `memory` keeps it in the process, `sqlite` in a file. In the latter,
`running` has what is not written yet, `writer` commits it, `writing` and `reading` are the statements.
"""
