"""Facts about models as upstreams report them, and the list that the gateway makes of them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from penstock.gateway.codex_models import SAFE_EFFORTS
from penstock.gateway.model_listing import models_body
from penstock.models.info import ModelFacts, ModelInfo, Prices


def body(*models: ModelInfo) -> Any:
    return json.loads(models_body(models, created=1_700_000_000))


_PRICE = st.one_of(st.just(0.0), st.integers(1, 900_000_000).map(lambda millionths: millionths / 1_000_000))


MODEL_FACTS = st.builds(
    ModelFacts,
    id=st.sampled_from(["m", "acme/m", "gpt-5", "o3", "claude-sonnet-4-5", "text-embedding-3-small"]),
    name=st.text(max_size=5),
    vendor=st.sampled_from(["", "acme"]),
    description=st.text(max_size=5),
    window=st.none() | st.integers(-1, 200_000_000),
    max_input=st.none() | st.integers(-1, 1_000_000),
    max_output=st.none() | st.integers(-1, 1_000_000),
    image_input=st.none() | st.booleans(),
    tool_calling=st.none() | st.booleans(),
    reasoning=st.none() | st.booleans(),
    efforts=st.none() | st.lists(st.sampled_from([*SAFE_EFFORTS, "max", "ultra"]), unique=True).map(tuple),
    prices=st.none() | st.builds(Prices, _PRICE, _PRICE, st.none() | _PRICE, st.none() | _PRICE),
)
