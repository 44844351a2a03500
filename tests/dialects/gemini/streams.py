"""Builders for the chunks of Gemini's streams, and what is read from them."""

from __future__ import annotations

from typing import Any


def chunk(*parts: dict[str, Any], finish: Any = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate | more]}


def call(name: str, args: Any = None, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, **({} if args is None else {"args": args})}, **more}


def piece(path: str, *, more: bool = True, **value: Any) -> dict[str, Any]:
    return {"functionCall": {"partialArgs": [{"jsonPath": path, **value}], "willContinue": more}}


def calls_of(snapshot: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (item["name"], item["arguments"]) for item in snapshot["output"] if item["type"] == "function_call"
    ]


NAME = {"functionCall": {"name": "f", "willContinue": True}}


END: dict[str, Any] = {"functionCall": {}}
