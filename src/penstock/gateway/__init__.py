"""The gateway: `POST /v1/responses` in front of any upstream.

Start at `app`, which finds the route, and at `turn`, the life of one response.
"""
