"""A Model Context Protocol server on standard input and output, with two tools."""

import json
import sys

TOOLS = [
    {
        "name": "look_up",
        "description": "Look a word up in the demo dictionary.",
        "inputSchema": {
            "type": "object",
            "properties": {"word": {"type": "string"}},
            "required": ["word"],
            "additionalProperties": False,
        },
    },
    {
        "name": "count.letters",
        "description": "Count the letters of a word. Its name has a character that some vendors refuse.",
        "inputSchema": {
            "type": "object",
            "properties": {"word": {"type": "string"}},
            "required": ["word"],
        },
    },
]


def result_of(method: str, parameters: dict) -> dict | None:
    if method == "initialize":
        return {
            "protocolVersion": parameters["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "demo", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        word = parameters["arguments"]["word"]
        text = f"{word}: a kind of gate" if parameters["name"] == "look_up" else str(len(word))
        return {"content": [{"type": "text", "text": text}], "isError": False}
    return {} if method == "ping" else None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    result = result_of(message["method"], message.get("params") or {})
    if result is None:
        answer["error"] = {"code": -32601, "message": "there is no such method"}
    else:
        answer["result"] = result
    print(json.dumps(answer), flush=True)
