"""The two files of pinned versions: with constraints-gpu.txt everything that trains resolves, vLLM included."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
RESOLVED = ("embedded", "data", "train", "eval", "studio", "vllm")


def pins(name: str) -> dict[str, Version]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    found = [line.partition("==") for line in lines if line and not line.startswith("#")]
    return {re.sub(r"[-_.]+", "-", package).lower(): Version(version) for package, _, version in found}


def wanted(*extras: str) -> list[Requirement]:
    import tomllib

    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return [Requirement(line) for extra in extras for line in listed[extra] if not line.startswith("compeer-esc[")]


@pytest.mark.parametrize(("file", "extras"), [("constraints.txt", RESOLVED[:-1]), ("constraints-gpu.txt", RESOLVED)])
def test_the_pins_are_what_the_extras_ask_for(file: str, extras: tuple[str, ...]) -> None:
    pinned = pins(file)
    named = {re.sub(r"[-_.]+", "-", one.name).lower(): one for one in wanted(*extras)}
    assert not [name for name, one in named.items() if name not in pinned or pinned[name] not in one.specifier]
    assert pinned["transformers"] != Version("5.17.0"), "it cannot open GGUF files"
    refused = [one for one in wanted("train", "demo") if one.name == "transformers" and "5.17.0" in one.specifier]
    assert not refused, "every extra that opens GGUF files with transformers leaves that version out"


def test_a_user_without_a_gpu_is_told_where_small_builds_of_torch_are() -> None:
    for page in ("constraints.txt", "docs/getting-started.md"):
        assert "PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu" in (ROOT / page).read_text(encoding="utf-8")


def index_answers() -> bool:
    try:
        with urllib.request.urlopen("https://pypi.org/simple/vllm/", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_uv_resolves_the_gpu_versions() -> None:
    """Slow, and only where the package index is reachable."""
    if not index_answers():
        pytest.skip("the package index does not answer")
    extras = [word for extra in RESOLVED for word in ("--extra", extra)]
    command = [
        sys.executable, "-m", "uv", "pip", "compile", "-q", "pyproject.toml", *extras, "--python-version", "3.12",
        "--python-platform", "x86_64-manylinux_2_28", "--constraint", "constraints-gpu.txt", "--no-annotate",
    ]  # fmt: skip
    certificates = os.environ.get("PIP_CERT")
    settings = dict(os.environ) | ({"SSL_CERT_FILE": certificates} if certificates else {})
    done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    resolved = dict(line.split("==") for line in done.stdout.splitlines() if "==" in line and not line.startswith("#"))
    assert Version("0.24") <= Version(resolved["vllm"]) and resolved["vllm"] == str(pins("constraints-gpu.txt")["vllm"])
