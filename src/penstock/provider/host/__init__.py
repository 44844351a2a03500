"""The editor host: requests and parts as JSON lines (docs/host.md).

`lines.py` splits bytes into lines, `requests.py` parses requests, `answers.py` answers them with a provider,
`error_messages.py` writes error messages, and `figures.py` converts models and usage to JSON. The gateway's
`POST /v1/parts` uses these too. `host.py` runs requests concurrently, each with the configuration of its
group (`groups.py`). `outbox.py` and `stdio.py` handle the pipes.
"""
