# `make help` lists the targets. Everything needs only Python 3.11 or later with venv, and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# What checks and packs the extension comes from npm, into a folder outside of the repository; its name changes with them.
# The types are those of the oldest VS Code that the extension runs in.
NODE_PACKAGES := @types/vscode@1.104.0 @types/node@20.19.43 typescript@5.9.3 @vscode/vsce@3.9.2
NODE_TOOLS    := $(or $(PENSTOCK_CACHE),$(HOME)/.cache/penstock/vscode)/tools-$(firstword $(shell echo '$(NODE_PACKAGES)' | cksum))

.DEFAULT_GOAL := help

help: ## Show this list
	@grep -hE '^[a-z][a-z0-9-]*:.*## ' $(MAKEFILE_LIST) | sort | awk 'BEGIN {FS = ":.*## "}; {printf "  make %-12s %s\n", $$1, $$2}'

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(READY)

env: $(READY) ## Create the environment in .venv

serve: $(READY) ## Start the gateway with the built-in demo model (ARGS="--port 9000" for options)
	@exec $(BIN)/penstock serve $(ARGS)

lint: $(READY) ## Check style, format and the import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(READY) ## Check types
	$(BIN)/mypy

unit: $(READY) ## Run the fast tests
	$(BIN)/pytest -n auto

e2e: $(READY) ## Start, stall, signal and leave the gateway; run every command of the README
	$(BIN)/pytest -n auto -m e2e

coverage: $(READY) ## Both once more, and see that every package is covered
	$(BIN)/pytest -n auto --cov --cov-report=
	@$(MAKE) --no-print-directory covered

covered: $(READY) ## The second half of make coverage, where the fast tests were measured already
	$(BIN)/pytest -n auto -m e2e --cov --cov-append --cov-report=term
	$(BIN)/python tests/coverage_floor.py

thorough: $(READY) ## The fast tests with twice as many examples
	PENSTOCK_PROFILE=thorough $(BIN)/pytest -n auto

test: lint types unit ## Everything that must pass before a commit

recordings: $(READY) ## Cut every recorded stream everywhere (minutes; needs the recordings beside the project)
	$(BIN)/pytest -n auto -m recordings

terminal: $(READY) ## Drive `penstock chat` in a real terminal (needs tmux)
	$(BIN)/pytest -m terminal

e2e-vscode: $(READY) ## Drive a real VS Code without a screen (needs chromium and npm; pictures go to artefacts/)
	$(BIN)/pytest -m vscode -rs $(ARGS)

pictures: $(READY) ## Take the pictures of docs/vscode.md and of the extension anew (needs what make e2e-vscode needs)
	PENSTOCK_PICTURES=1 $(BIN)/pytest -m vscode -rs tests/vscode/e2e/test_chat_view.py tests/vscode/e2e/test_commands.py

$(NODE_TOOLS)/.ready:
	@mkdir -p $(NODE_TOOLS)
	npm install --prefix $(NODE_TOOLS) --no-audit --no-fund --ignore-scripts --loglevel error $(NODE_PACKAGES)
	@touch $@

types-vscode: $(NODE_TOOLS)/.ready ## Check the types of the VS Code extension (needs npm)
	$(NODE_TOOLS)/node_modules/.bin/tsc -p vscode/jsconfig.json --typeRoots $(NODE_TOOLS)/node_modules/@types

vsix: $(NODE_TOOLS)/.ready ## Pack the VS Code extension into dist/ (needs npm)
	@mkdir -p dist
	cd vscode && $(NODE_TOOLS)/node_modules/.bin/vsce package --no-dependencies --allow-missing-repository \
	  --no-rewrite-relative-links --out ../dist/

docs: $(READY) ## Write the generated parts of docs/ anew
	$(BIN)/python docs/generate.py

bench: $(READY) ## Measure; results go to bench/results
	$(BIN)/python -m bench.core
	$(BIN)/python -m bench.dialects
	$(BIN)/python -m bench.consumer
	$(BIN)/python -m bench.tokens
	$(BIN)/python -m bench.gateway
	$(BIN)/python -m bench.store
	$(BIN)/python -m bench.startup

format: $(READY) ## Format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format --quiet .

clean: ## Remove the environment and what tools left behind
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage dist build artefacts

.PHONY: help env serve lint types unit e2e coverage covered thorough test recordings terminal e2e-vscode pictures types-vscode vsix docs bench format clean
