"""The editor's host: requests and parts as JSON lines (docs/host.md).

`lines.py` cuts bytes into lines, `requests.py` says what a line asks for, `answers.py` answers it with a
provider, `error_messages.py` makes sentences of errors, `figures.py` has models and usage as JSON: these are
for the gateway's `POST /v1/parts` as well. `host.py` runs many requests at once, each under the configuration
of its group (`groups.py`); `outbox.py` and `stdio.py` are the pipe.
"""
