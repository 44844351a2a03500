"""The gateway: `POST /v1/responses` in front of any upstream.

Start reading at `app`, which dispatches requests, and at `turn`, the life of one response.
"""
