"""Recognise secrets that nobody has named, by their shape."""

from __future__ import annotations

import re

_LIKELY_SECRETS = (
    (r"\bsk-[\w*-]{6,}", "[key]"),
    (r"\b(?:pk|rk|vck|gsk|hf|gh[opsu]|\w{0,9}pat)[-_](?=[\w*-]{0,99}[\d*])[\w*-]{8,}", "[key]"),
    (r"\b[a-z]{2,4}-[0-9A-Za-z]{40,}", "[key]"),
    (r"\bAIza[\w-]{20,}|\bAKIA[0-9A-Z]{12,}|\beyJ[\w-]+\.[\w-]+\.[\w-]*", "[key]"),
    (r"(?i)\b(bearer|basic) (?=\S{0,99}\d)[\w.~+/=*-]{8,}", r"\1 [key]"),
    (r"(?i)([?&][\w-]{0,40}(?:key|token|secret|password|sig|signature|auth)=)[^\s&#\"'<>)]+", r"\1[key]"),
    (
        (
            r"(?i)(\b(?:\w{1,40}[_-])?(?:key|token|secret|password)[\"']?\s?[=:]\s?[\"']?)"
            r"(?=\S{0,99}\d)[^\s\"'&,;<>(){}]{8,}"
        ),
        r"\1[key]",
    ),
    (r"(://)[^\s/@:]+:[^\s/@]+@", r"\1[key]@"),
)
"""What looks like a key, a token or a password, and what to write instead."""


def mask_likely_secrets(text: str) -> str:
    """Mask what looks like a secret: a server may quote keys that it was not sent, such as its own."""
    for shape, mask in _LIKELY_SECRETS:
        text = re.sub(shape, mask, text)  # compiled when it is first needed
    return text
