"""Where the requests of a dialect go, from whatever form of the URL a person has at hand (notes/asks L3)."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from msgspec.structs import replace

from penstock.dialects.presets import PRESETS
from penstock.errors import InvalidRequestError
from penstock.net.urls import RESPONSES, Address, Form, read_address

FORMS: dict[str, Form] = {
    "chat": Form(re.compile(r"/chat/completions$")),
    "responses": RESPONSES,
    # Those who document these two write the base URL without the version: the libraries add it.
    "anthropic": Form(re.compile(r"/messages$"), is_versioned_everywhere=True),
    "gemini": Form(
        re.compile(r"/(models|tunedModels)/[^/]+:\w+$"), version="/v1beta", is_versioned_everywhere=True
    ),
}
"""How base URLs are written, for each dialect that requests can be rendered in."""

_KNOWN = frozenset(row.base_url for row in PRESETS.values())
_PLACEHOLDER = re.compile(r"\{\w*\}")


def address_of(base_url: str, dialect: str) -> Address:
    """The address under which the paths of this dialect are."""
    if found := _PLACEHOLDER.search(base_url):
        told = f"the base URL still has a placeholder: write your own value instead of {found[0]}"
        raise InvalidRequestError(told, code="invalid_base_url", param="base_url")
    address = read_address(base_url, FORMS[dialect])
    known = base_url.strip().rstrip("/")
    if known in _KNOWN:
        # Some vendors have their API at the root, without a version. What a preset says is exact.
        return replace(address, path=urlsplit(known).path, advice="")
    return address
