"""The rows of a corpus, checked against a schema, wherever they lie: JSON lines, a JSON list, or the hub.

Each importer declares the row it expects as a msgspec Struct, so a missing key or a wrong type is named with its
path ("Expected `str`, got `int` - at `$.dialog[3].text`") and turns away that row only. Both file forms are
streamed. A byte order mark, CRLF line ends and compressed files (.gz, .bz2, .xz, .zst) need no preparation.

`parts` finds the files: a path is a file, the corpus folder (one file a split), or a name on the hub.
"""

from __future__ import annotations

import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Generic, TypeVar

import msgspec
import zstandard

from compeer.corpora import hub
from compeer.corpora.json_list import elements
from compeer.corpora.outcome import CorpusError, Rejected
from compeer.dialogue import Dialogue
from compeer.dialogue.jsonl import open_bytes
from compeer.typed import from_json, from_plain, known

T = TypeVar("T")
COMPRESSED = ("", ".gz", ".bz2", ".xz", ".zst")
_SAME_SPLIT = {"val": "valid", "validation": "valid", "dev": "valid", "training": "train", "testing": "test"}


class Row(msgspec.Struct, Generic[T], frozen=True):
    """One row and where it stands. `index` counts every record of the file from 0, the broken ones too."""

    value: T
    index: int
    line: int
    file: str


class Part(msgspec.Struct, Generic[T], frozen=True):
    """The rows of one file or split."""

    split: str
    rows: Iterator[Row[T] | Rejected]


def parts(
    source: str, path: Path, kind: type[T], names: Mapping[str, tuple[str, ...]], split: str | None = None
) -> Iterator[Part[T]]:
    """The splits of a corpus. `names`: for each split the file names it is known under, the usual one first."""
    if hub.is_name(path):
        for label, rows in hub.splits(source, str(path), split):
            yield Part(label, _hub_rows(source, str(path), rows, kind))
        return
    for label, file in files(path, names, split):
        yield Part(label, read(source, file, kind))


def files(path: Path, names: Mapping[str, tuple[str, ...]], split: str | None = None) -> list[tuple[str, Path]]:
    """Split and file, for a path that is a file or a folder; CorpusError when there is nothing to read."""
    if path.is_file():
        by_name = {name: label for label, known in names.items() for name in known}
        bare = re.sub(r"\.(gz|bz2|xz|zst)$", "", path.name)
        return [(split or by_name.get(bare) or _slug(bare), path)]
    if not path.is_dir():
        raise CorpusError(path, "there is no such file or folder", "Give the corpus file, its folder, or a hub name")
    wanted = {label: known for label, known in names.items() if split is None or _same(label, split)}
    if not wanted:
        raise CorpusError(path, f"there is no split {split!r}", f"Known splits: {', '.join(names)}")
    found = [
        (label, file)
        for label, known in wanted.items()
        if (file := next((f for n in known for c in COMPRESSED if (f := path / (n + c)).is_file()), None))
    ]
    if not found:
        looked = ", ".join(name for known in wanted.values() for name in known)
        raise CorpusError(path, f"none of these files is here: {looked}", "Give the path of the file itself")
    return found


def read(source: str, path: Path, kind: type[T]) -> Iterator[Row[T] | Rejected]:
    """Rows of a JSON lines file or a JSON list; which of the two, the first character tells."""
    with opened(path) as file:
        head = file.read(1 << 16)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise CorpusError(path, "the file is UTF-16", "Convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8")
    if head.startswith(b"version https://git-lfs"):
        raise CorpusError(path, "this is a Git LFS pointer, not the data", "Fetch the file itself with git lfs pull")
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if not first:
        raise CorpusError(path, "the file is empty", "Download it again")
    return (_list if first == b"[" else _lines)(source, path, kind)


def _lines(source: str, path: Path, kind: type[T]) -> Iterator[Row[T] | Rejected]:
    decoder = msgspec.json.Decoder(known(kind))
    index = 0
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            if not (text := line.removeprefix(b"\xef\xbb\xbf").strip()):
                continue
            try:
                yield Row(decoder.decode(text), index, number, str(path))
            except (ValueError, RecursionError) as problem:  # msgspec's errors are ValueErrors
                yield _rejected(source, path, index, number, problem)
            index += 1


def _list(source: str, path: Path, kind: type[T]) -> Iterator[Row[T] | Rejected]:
    decoder = msgspec.json.Decoder(known(kind))
    with opened(path) as file:
        for index, element in enumerate(elements(file)):
            try:
                if element.problem:
                    raise ValueError(element.problem)
                yield Row(decoder.decode(element.text.encode()), index, element.line, str(path))
            except (ValueError, RecursionError) as problem:
                yield _rejected(source, path, index, element.line, problem)


def _hub_rows(source: str, name: str, rows: Iterator[dict[str, object]], kind: type[T]) -> Iterator[Row[T] | Rejected]:
    for index, row in enumerate(rows):
        try:
            # a .txt of JSON lines (ESConv) comes from the hub as rows with one column, `text`
            if set(row) == {"text"} and isinstance(row["text"], str):
                value = from_json(row["text"], kind)
            else:
                value = from_plain(row, kind)
            yield Row(value, index, index + 1, name)
        except (ValueError, RecursionError) as problem:
            yield _rejected(source, name, index, index + 1, problem)


def imported(
    source: str,
    rows: Iterator[Row[T] | Rejected],
    identify: Callable[[T, int], str],
    build: Callable[[T, str], Dialogue],
    seen: set[str] | None = None,
) -> Iterator[Dialogue | Rejected]:
    """Each row as a dialogue, or turned away with what `build` complained of.

    `seen`: ids met so far, for corpora that bring their own and could bring one twice. Where the id is the
    index there is nothing to check, and no memory to spend on it.
    """
    for row in rows:
        if isinstance(row, Rejected):
            yield row
            continue
        name = identify(row.value, row.index)
        try:
            if seen is not None:
                if name in seen:
                    raise ValueError("an earlier record has the same id")
                seen.add(name)
            yield build(row.value, name)
        except ValueError as problem:
            yield Rejected(source=source, file=row.file, record=name, line=row.line, reason=str(problem))


def by_index(prefix: str, digits: int = 5) -> Callable[[object, int], str]:
    """Ids from the place in the file: unique, and the same at every import of the same file.

    >>> by_index("esconv/train")(None, 12)
    'esconv/train/00012'
    """
    return lambda _, index: f"{prefix}/{index:0{digits}d}"


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The file as bytes; damage to it (a truncated archive, a bad disk) is a CorpusError."""
    try:
        with open_bytes(path, "rb") as file:
            yield file
    except (OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as problem:
        raise CorpusError(path, f"cannot be read: {problem}", "Check the file, or download it again") from problem


def _rejected(source: str, path: object, index: int, line: int, problem: Exception) -> Rejected:
    reason = "nested too deeply" if isinstance(problem, RecursionError) else str(problem)
    if isinstance(problem, UnicodeError):
        reason = "not UTF-8"
    return Rejected(source=source, file=str(path), record=str(index), line=line, reason=reason)


def _same(label: str, split: str) -> bool:
    split = split.lower()
    return label == split or _SAME_SPLIT.get(label, label) == _SAME_SPLIT.get(split, split)


def _slug(file_name: str) -> str:
    """A readable part of an id from a file name.

    >>> _slug("My dialogues (2).jsonl")
    'my-dialogues-2'
    """
    stem = re.sub(r"\.\w+$", "", file_name)
    return re.sub(r"[^\w.]+", "-", stem).strip("-").lower() or "data"
