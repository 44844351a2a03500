"""The order of a model's targets for one conversation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from penstock.upstream.affinity import ranked
from penstock.upstream.attempts import Candidate


def in_order(candidates: Sequence[Candidate], seed: bytes) -> list[Candidate]:
    """Return the candidates with each group in the order of its scores. Groups stay in the operator's
    order."""
    if len(candidates) == 1:
        return list(candidates)
    found: list[Candidate] = []
    for _, members in groupby(candidates, key=lambda each: each.group):
        group = list(members)
        places = ranked(seed, ((f"{each.upstream.name}/{each.model}", each.weight) for each in group))
        found += [group[place] for place in places]
    return found


def origin_first(candidates: Sequence[Candidate], keys: Iterable[str]) -> list[Candidate]:
    """Return the candidates with the one first that has the key that the conversation's reasoning is bound
    to. It must be in the first group, or be the same model at the same vendor: any other order is the
    operator's decision."""
    if len(candidates) == 1:
        return list(candidates)
    first = candidates[0]
    for key in keys:
        for candidate in candidates:
            is_equal = candidate.group == first.group or _origin(candidate) == _origin(first)
            if is_equal and candidate.upstream.keys.has(key):
                return [candidate, *(each for each in candidates if each is not candidate)]
    return list(candidates)


def _origin(candidate: Candidate) -> tuple[str, str, str]:
    target = candidate.upstream.target(candidate.model, "")
    return target.dialect, target.vendor, target.model
