#!/bin/sh
# VS Code: a window with the models of the gateway, and nothing else. Your own settings are not used: these are
# in a folder that is removed when the window is closed.
#
# Run `penstock serve` in another terminal, then: sh examples/clients/vscode.sh
set -eu

FOLDER=$(mktemp -d)
trap 'rm -rf "$FOLDER"' EXIT
mkdir "$FOLDER/User"
penstock connect vscode \
  --base-url "${PENSTOCK_URL:-http://127.0.0.1:8080/v1}" --model "${PENSTOCK_MODEL:-demo}" \
  > "$FOLDER/User/chatLanguageModels.json"

code --user-data-dir "$FOLDER" --new-window --wait
