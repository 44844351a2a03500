"""An independent reader of streams: the response that a client has after each event.

It works on decoded JSON and shares no code with the machine.
"""

from __future__ import annotations

import copy
from typing import Any

JSON = dict[str, Any]


class Fold:
    """Feed events, then read `response`."""

    def __init__(self) -> None:
        self.response: JSON = {}
        self.output: list[JSON] = []

    def feed(self, event: JSON) -> None:
        kind = event["type"]
        if "response" in event:
            self.response = {**copy.deepcopy(event["response"]), "output": self.output}
        elif kind == "response.output_item.added":
            assert event["output_index"] == len(self.output)
            self.output.append(copy.deepcopy(event["item"]))
        elif kind == "response.output_item.done":
            self.output[event["output_index"]] = copy.deepcopy(event["item"])
        elif "item_id" in event and "output_index" in event:
            item = self.output[event["output_index"]]
            assert item["id"] == event["item_id"]
            self._feed_item(item, kind, event)

    def _feed_item(self, item: JSON, kind: str, event: JSON) -> None:
        if kind in ("response.content_part.added", "response.content_part.done"):
            _put(item.setdefault("content", []), event["content_index"], event["part"])
        elif kind in ("response.reasoning_summary_part.added", "response.reasoning_summary_part.done"):
            _put(item["summary"], event["summary_index"], event["part"])
        elif kind == "response.output_text.delta":
            part = item["content"][event["content_index"]]
            part["text"] += event["delta"]
            part["logprobs"] += event["logprobs"]
        elif kind == "response.output_text.annotation.added":
            item["content"][event["content_index"]]["annotations"].append(event["annotation"])
        elif kind == "response.refusal.delta":
            item["content"][event["content_index"]]["refusal"] += event["delta"]
        elif kind == "response.reasoning.delta":
            item["content"][event["content_index"]]["text"] += event["delta"]
        elif kind == "response.reasoning_summary_text.delta":
            item["summary"][event["summary_index"]]["text"] += event["delta"]
        elif kind == "response.function_call_arguments.delta":
            item["arguments"] += event["delta"]
        elif kind == "response.custom_tool_call_input.delta":
            item["input"] += event["delta"]


def _put(parts: list[JSON], index: int, part: JSON) -> None:
    if index == len(parts):
        parts.append(copy.deepcopy(part))
    else:
        parts[index] = copy.deepcopy(part)
