#!/bin/sh
# llm: a streamed answer, and a tool that the model calls. Your own settings of llm are not used: these are in
# a folder that is removed at the end.
#
# Run `penstock serve` in another terminal, then: pip install llm && sh examples/clients/llm.sh
set -eu

MODEL=${PENSTOCK_MODEL:-demo}
LLM_USER_PATH=$(mktemp -d)
export LLM_USER_PATH
trap 'rm -rf "$LLM_USER_PATH"' EXIT
penstock connect llm --write --base-url "${PENSTOCK_URL:-http://127.0.0.1:8080/v1}" --model "$MODEL"
[ -z "${PENSTOCK_KEY:-}" ] || llm keys set penstock --value "$PENSTOCK_KEY"

llm -m "$MODEL" "Count from 1 to 5."
llm -m "$MODEL" "How is the weather in Rome?" --functions '
def get_weather(city: str) -> str:
    "The weather in a city, now."
    return f"18 degrees and sunny in {city}"
'
