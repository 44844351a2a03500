"""Why there is no release."""


class ReleaseRefused(Exception):  # noqa: N818 - named after what happened
    """Nothing was released; the message says why, and what to do."""
