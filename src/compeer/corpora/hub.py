"""A corpus by its name on the Hugging Face hub (`thu-coai/esconv`), streamed through `datasets`.

The name must not exist as a path and must look like one: owner/name, no file suffix, and no local folder of the
owner's name (then it is a mistyped path). Needs the `datasets` package and a network; without either the error
says so and asks for a file instead. Traps: Arrow fills absent keys with None, so schemas allow None; a `.txt`
corpus comes as rows with the single column `text`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compeer.corpora.outcome import CorpusError

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_SUFFIX = re.compile(r"\.(json|jsonl|txt|csv|tsv|parquet|gz|bz2|xz|zst)$")


def is_name(path: Path) -> bool:
    """Whether this is a name on the hub rather than a path."""
    text = path.as_posix()
    looks = _NAME.fullmatch(text) is not None and not _SUFFIX.search(text)
    return looks and not path.exists() and not path.parent.exists()


def splits(source: str, name: str, split: str | None) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """Every split of the dataset (or the one asked for) with its rows, streamed."""
    try:
        datasets: Any = importlib.import_module("datasets")  # heavy: only when a hub name is given
    except ImportError:
        raise CorpusError(
            name,
            "this is no local path, and reading from the hub needs the datasets package",
            "Install it (pip install 'compeer[data]'), or give the path of a downloaded file",
        ) from None
    try:
        found = datasets.load_dataset(name, split=split, streaming=True)
        named = {split: found} if split is not None else dict(found)
        for label, rows in named.items():
            yield label, _guarded(name, iter(rows))
    except CorpusError:
        raise
    except Exception as problem:  # datasets raises many kinds: no network, no such dataset, no such split
        raise _unreachable(source, name, problem) from problem


def _guarded(name: str, rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except Exception as problem:  # the connection can also break half-way
            raise _unreachable("", name, problem) from problem
        yield row


def _unreachable(source: str, name: str, problem: Exception) -> CorpusError:
    first = next((line for line in str(problem).splitlines() if line.strip()), type(problem).__name__)
    download = f"download {source} and give its path" if source else "download the files and give their path"
    return CorpusError(
        name,
        f"this is no local path, and the hub did not give it ({type(problem).__name__}: {first})",
        f"Check the name, the split and the network, or {download}",
    )
