"""What is on this machine: `compeer doctor`, `compeer models` and `compeer config`.

doctor   what is installed, which models answer, what is missing and the command that fixes it
models   known weights by hash: list, download, find, remove
config   the configurations that come with COMPEER: `compeer config copy` writes all of them to ./configs, where the
         pages of the documentation expect them; `compeer config copy reward/laptop` writes one
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from compeer import __version__
from compeer.cli.options import CommandGroup, print_json, print_result, with_options
from compeer.errors import UserError

#: extra -> what it is for, and the packages that show it is there
EXTRAS: dict[str, tuple[str, tuple[str, ...]]] = {
    "embedded": ("the built-in model", ("xllamacpp",)),
    "data": ("building the dataset", ("datasets", "scikit-learn", "matplotlib", "sentence-transformers")),
    "train": ("training and local models", ("torch", "transformers", "trl", "peft", "llguidance")),
    "eval": ("ESC-Eval and SAGE", ("inspect-ai",)),
    "ray": ("stages on a cluster", ("ray",)),
}


@dataclass(frozen=True)
class Finding:
    """One thing examined. `needed` findings decide the exit status."""

    what: str
    ok: bool
    found: str
    fix: str = ""
    needed: bool = False


def examine(*, ask_models: bool = True) -> list[Finding]:
    """All findings, in the order a new user meets them."""
    findings = [Finding("compeer", True, f"{__version__}, Python {platform.python_version()}, {os.cpu_count()} cores")]
    findings += [_extra(name, purpose, packages) for name, (purpose, packages) in EXTRAS.items()]
    large, small = _weights("weights", "embedded"), _weights("small weights", "embedded:small")
    findings += [_cache(), large, small, _memory(), _adapters(), _licences(), _default()]
    if ask_models:
        embedded = _embedded("embedded", large) if large.ok else _embedded("embedded:small", small)
        endpoint = _endpoint()
        # one model that answers is enough to begin
        needed = not (embedded.ok or endpoint.ok)
        findings += [replace(embedded, needed=needed), endpoint]
    return findings


def _licences() -> Finding:
    """The licence of every part of the package; an adapter that is not free for any use is named."""
    from compeer.models import shipped

    folders = [path for path in sorted(Path(shipped.__file__).parent.iterdir()) if shipped.is_adapter(path)]
    adapters = {folder.name: shipped.licence(folder) for folder in folders}
    bound = [name for name, licence in adapters.items() if licence not in ("apache-2.0", "cc-by-4.0")]
    told = "code Apache-2.0; conversations, safety data and networks CC-BY-4.0; "
    told += ", ".join(f"adapter {name} {licence.upper()}" for name, licence in adapters.items())
    return Finding("licences", not bound, told + f". No commercial use of: {', '.join(bound)}" * bool(bound))


def _extra(name: str, purpose: str, packages: tuple[str, ...]) -> Finding:
    versions, missing = [], []
    for package in packages:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(package)
    if missing:
        return Finding(
            name, False, f"for {purpose}: missing {', '.join(missing)}", f'pip install "compeer-esc[{name}]"'
        )
    return Finding(name, True, ", ".join(versions))


def _cache() -> Finding:
    from compeer.models.weights import cache_dir

    folder = cache_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    if writable:
        return Finding("cache", True, str(folder))
    return Finding("cache", False, f"{folder} cannot be written to", "export COMPEER_CACHE=FOLDER  # one that can")


def _weights(what: str, model: str) -> Finding:
    """Whether the weights of an embedded model are here; nothing is fetched."""
    from compeer.models.request import ModelError
    from compeer.models.weights import find, named

    weights = named(model)
    get = f"compeer models get {weights.name}"
    try:
        path = find(weights)
    except ModelError as error:
        return Finding(what, False, str(error), "unset COMPEER_WEIGHTS" if "COMPEER_WEIGHTS" in str(error) else get)
    if path is None:
        then = "the small model answers in its place" if weights.on_request else "fetched on first use"
        return Finding(what, False, f"{weights.name} is not here ({weights.about}); {then}", get)
    return Finding(what, True, str(path))


def _memory() -> Finding:
    """Whether the 1.5B model fits into the memory that is free now, and in which form."""
    from compeer.models.embedded import free_memory, memory_needed
    from compeer.models.weights import BASE

    shared, own, faster = memory_needed(BASE.size)
    free = free_memory()
    need = (
        f"the 1.5B model takes {shared / 1e9:.1f} GB that all processes share and {own / 1e9:.1f} GB of its own; "
        f"{faster / 1e9:.1f} GB more make it write a quarter faster"
    )
    if free is None:
        return Finding("memory", True, need)
    if free < shared + own:
        return Finding(
            "memory",
            False,
            f"{free / 1e9:.1f} GB are free, and {need}. It would read from the disk at every word",
            "compeer chat --model embedded:small  # or close other programs",
        )
    return Finding("memory", True, f"{free / 1e9:.1f} GB free; {need}")


def _adapters() -> Finding:
    """The adapters that the embedded models have; without one it is the plain model."""
    from compeer.models import shipped
    from compeer.models.weights import BASE, SMALL, published

    wanted = {"supporter-1.5b": ("supporter", BASE), "supporter": ("supporter", SMALL), "judge": ("judge", SMALL)}
    here = {name: shipped.adapter(role, weights) for name, (role, weights) in wanted.items()}  # type: ignore[arg-type]
    told = [f"{name} {shipped.sha256(folder)[:12]}" for name, folder in here.items() if folder]
    missing = [name for name, folder in here.items() if folder is None]
    if not missing:
        return Finding("adapters", True, ", ".join(told))
    why = "of weights that are not the published ones" if not published() else "here"
    said = f"no {' and no '.join(missing)} {why}: there the model is the plain, untrained one"
    return Finding("adapters", False, "; ".join([said, *told]))


def _default() -> Finding:
    """The model that commands take when none is named: whether it can be opened, not whether it answers."""
    from compeer.models import open_model, run
    from compeer.models.request import ModelError

    spec = os.environ.get("COMPEER_MODEL") or "embedded"
    try:
        run(open_model(spec).close())
    except ModelError as error:
        return Finding("default model", False, str(error), "export COMPEER_MODEL=SPEC, or unset it", needed=True)
    return Finding("default model", True, spec)


def _embedded(spec: str, weights: Finding) -> Finding:
    from compeer.models import Answer, Request, open_model, run
    from compeer.models.request import ModelError

    what = "embedded model"
    if not weights.ok:  # asking would fetch them; looking should not
        return Finding(what, False, "not asked: it has no weights", weights.fix)

    async def ask() -> Answer:
        model = open_model(spec)
        try:
            request = Request(messages=[{"role": "user", "content": "Hello"}], max_tokens=24, temperature=0)
            return await model.ask(request)
        finally:
            await model.close()

    started = time.perf_counter()
    try:
        answer = run(ask())
    except ModelError as error:
        return Finding(
            what,
            False,
            str(error),
            "" if importlib.util.find_spec("xllamacpp") else 'pip install "compeer-esc[embedded]"',
        )
    seconds = time.perf_counter() - started
    return Finding(what, True, f"{spec} answers: {answer.usage.completion} tokens in {seconds:.1f} s with loading")


def _endpoint() -> Finding:
    address = os.environ.get("OPENAI_BASE_URL")
    if not address:
        return Finding("endpoint", False, "none set", "export OPENAI_BASE_URL=http://HOST:PORT/v1")
    from compeer.models import run
    from compeer.models.endpoint import Endpoint
    from compeer.models.request import ModelError

    async def ask() -> str:
        endpoint = Endpoint("?", address, os.environ.get("OPENAI_API_KEY"))
        try:
            names = [str(entry.get("id")) for entry in await endpoint.models()]
            return f"{address} serves {', '.join(names[:5]) or 'nothing'} ({await endpoint.dialect()})"
        finally:
            await endpoint.close()

    try:
        return Finding("endpoint", True, run(ask()))
    except ModelError as error:
        return Finding("endpoint", False, str(error), "unset OPENAI_BASE_URL  # or start the server")


@with_options("doctor")
def doctor(as_json: bool = False, quick: bool = False) -> None:
    """Check this installation. The exit status is 1 if no model can be used."""
    findings = examine(ask_models=not quick)
    if as_json:
        print_json(findings)
    else:
        _show(findings)
    if any(finding.needed and not finding.ok for finding in findings):
        raise typer.Exit(1)


def _show(findings: list[Finding]) -> None:
    """One line per finding. What is wrong is said in full, with the command that fixes it below."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from compeer.conversation.display import plain

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 1000
    left = 4 + max(len(finding.what) for finding in findings)
    for finding in findings:
        mark, style = ("✓", "green") if finding.ok else ("✗", "red") if finding.needed else ("–", "yellow")
        found = Text(plain(finding.found).replace(str(Path.home()), "~"), overflow="ellipsis", no_wrap=finding.ok)
        row = Table.grid()
        row.add_column(width=left)
        row.add_row(Text.assemble((mark, style), f" {finding.what}"), found)
        console.print(row)
        if finding.fix and not finding.ok:
            console.print(Text(" " * left) + Text(finding.fix, style="bold"), soft_wrap=True)


models = CommandGroup("models")


@models.add("list")
def list_weights(as_json: bool = False) -> None:
    """List the known weights and where they are."""
    from compeer.models.request import ModelError
    from compeer.models.weights import KNOWN, find

    rows: list[dict[str, Any]] = []
    lines = []
    for weights in KNOWN:
        try:
            path, problem = find(weights), None
        except ModelError as error:
            path, problem = None, str(error)
        row = {name: getattr(weights, name) for name in ("name", "about", "size", "licence", "languages", "sha256")}
        row |= {"model": weights.spec.removesuffix(":plain"), "path": str(path) if path else None, "problem": problem}
        rows.append(row)
        lines.append(f"{weights.name}  ({row['model']}; {weights.about})")
        lines.append(f"  {row['path'] or problem or 'not here: compeer models get ' + weights.name}")
    print_result(rows, as_json, lines)


@models.add("get")
def get(name: str, source: Path | None = None, as_json: bool = False) -> None:
    """Download weights to the user's cache, unless they are already on this machine."""
    from compeer.models.fetch import fetch
    from compeer.models.weights import find, named

    weights = named(name)
    here = find(weights) if source is None else None
    path = here or fetch(weights, source)
    result = {"name": weights.name, "path": str(path), "sha256": weights.sha256, "fetched": here is None}
    print_result(result, as_json, f"{weights.name}: {path}")


@models.add("path")
def path_of(name: str, as_json: bool = False) -> None:
    """Print the path of weights. The exit status is 1 if they are not on this machine."""
    from compeer.models.weights import find, named

    weights = named(name)
    path = find(weights)
    if path is None and not as_json:
        raise UserError(f"{weights.name} is not here. Get it: compeer models get {weights.name} ({weights.about})")
    print_result({"name": weights.name, "path": str(path) if path else None}, as_json, str(path))
    if path is None:
        raise typer.Exit(1)


@models.add("remove")
def remove(name: str, as_json: bool = False) -> None:
    """Delete weights and incomplete downloads from the cache. Other files are not touched."""
    from compeer.models.fetch import remove as delete
    from compeer.models.weights import named

    weights = named(name)
    gone = [str(path) for path in delete(weights)]
    said = [f"removed {path}" for path in gone] or [f"{weights.name} is not in the cache."]
    print_result({"name": weights.name, "removed": gone}, as_json, said)


configs = CommandGroup("config")


@configs.add("list")
def list_configs(as_json: bool = False) -> None:
    """List the configurations and what each is for."""
    from compeer.config import shipped

    about = {name: path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ") for name, path in shipped().items()}
    rows = [{"name": name, "about": line} for name, line in about.items()]
    print_result(rows, as_json, [f"{name:24} {line}" for name, line in about.items()])


@configs.add("show")
def show(name: str) -> None:
    """Print one configuration."""
    typer.echo(_config_named(name).read_text(encoding="utf-8"), nl=False)


@configs.add("copy")
def copy(names: list[str] | None = None, to: Path = Path("configs"), force: bool = False) -> None:
    """Copy configurations to a folder, to use or change them."""
    from compeer.config import shipped

    targets = {to / path.parent.name / path.name: path.read_bytes() for path in map(_config_named, names or shipped())}
    changed = [target for target, text in targets.items() if target.exists() and target.read_bytes() != text]
    if changed and not force:
        raise UserError(f"{changed[0]} exists and differs from ours. Choose another --to, or replace it with --force.")
    for target, text in targets.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text)
    typer.echo("\n".join(map(str, targets)))


def _config_named(name: str) -> Path:
    from compeer.config import shipped

    known = shipped()
    if name.removesuffix(".yaml") not in known:
        raise UserError(f"There is no configuration {name}. Known are: {', '.join(known)}.")
    return known[name.removesuffix(".yaml")]
