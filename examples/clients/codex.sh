#!/bin/sh
# Codex CLI: an answer, and a command that the model runs. Your ~/.codex is not used: the configuration is in
# a folder that is removed at the end.
#
# Run `penstock serve` in another terminal, then: npm install -g @openai/codex && sh examples/clients/codex.sh
set -eu

CODEX_HOME=$(mktemp -d)
export CODEX_HOME
trap 'rm -rf "$CODEX_HOME"' EXIT
penstock connect codex --write \
  --base-url "${PENSTOCK_URL:-http://127.0.0.1:8080/v1}" --model "${PENSTOCK_MODEL:-demo}"

codex exec --skip-git-repo-check "Count from 1 to 5."
codex exec --skip-git-repo-check "Run \`echo 18 degrees and sunny in Rome\` with exec_command."
