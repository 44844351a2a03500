"""`penstock connect` and `penstock run`: how clients are configured for a gateway, and started with one.

`guides` is the table of clients. `gateway` finds out where the gateway is and which models it has. A client
with a file of its own has an editor for it, which keeps everything else in the file: `codex_config`,
`vscode_models`, `llm_models`. `own_checks` lets a client's own program read a configuration.

`programs` is the table of the clients that `penstock run` starts; `codex_program` has the options for Codex.
`model_choice` decides with which model a client starts, `foreground` runs it and passes signals on.
"""
