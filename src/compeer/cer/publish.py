"""The dataset as a folder that `datasets.load_dataset(FOLDER)` reads, whole or not at all.

    README.md              the card, with the type of every column
    data/train.parquet     what load_dataset(FOLDER) reads
    jsonl/train.jsonl      the same rows as JSON lines: load_dataset(FOLDER/jsonl), which has the types in a README.md
                           of its own, because `datasets` reads one format a folder
    images/<hash>.png      pictures, once each, by content; rows name them relative to the folder

Columns are the same in every split, whatever the items hold: the schema is written out below, so that a
column of nothing but None keeps its type. What has no fixed shape (`trace`, a vote's value) is a string.
`read` turns rows back into items. Rows are streamed; a split of a million items needs no more memory than
one of a thousand. The folder is built beside the target and takes its place when it is complete.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import msgspec
import yaml

from compeer.cer.card import MARK, About, Tally, card
from compeer.cer.item import Item, Split
from compeer.dialogue import RecordError, read_rows
from compeer.errors import UserError
from compeer.typed import from_plain

_BATCH = 512

# HF names of the types, in nested (name, type) form; `[…]` is a list, a dictionary a struct
_REASONING: dict[str, Any] = {
    "history": {"text": "string", "stage": "string"},
    "emotion": {"text": "string", "sentiment": "string", "emotion": "string", "intensity": "int32"},
    "strategy": {"text": "string", "strategy": "string"},
    "language": "string",
}
COLUMNS: dict[str, Any] = {
    "id": "string",
    "dialogue": "string",
    "source": "string",
    "licence": "string",
    "language": "string",
    "round": "int32",
    "history": [{"speaker": "string", "text": "string", "images": ["string"]}],
    "reference": "string",
    "reference_strategies": ["string"],
    "reference_reasoning": _REASONING,
    "situation": "string",
    "problem": "string",
    "candidate": {"response": "string", "reasoning": _REASONING, "generator": "string", "raw": "string"},
    "labels": {"history": "bool", "emotion": "bool", "strategy": "bool", "preference": "string"},
    "label_source": "string",
    "votes": [
        {
            "annotator": "string",
            "question": "string",
            "value": "string",
            "at": "string",
            "seconds": "float64",
            "candidate_first": "bool",
            "guideline": "string",
        }
    ],
    "persona": "string",
    "variant": "string",
    "split": "string",
    "crisis": "bool",
    "trace": "string",
}


def publish(items: Iterable[Item], folder: Path, about: About = About(), *, image_root: Path | None = None) -> Tally:
    """Write the folder, in place of an earlier one of ours. Relative picture paths are looked up under `image_root`."""
    folder = folder.absolute()
    if folder.exists() and not _ours(folder):
        raise UserError(f"{folder} is not empty and was not written by this command; give another folder, or empty it.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(building, ignore_errors=True)
    try:
        building.mkdir()
        tally = _write(items, building, image_root or Path())
        front = loading(tally.parts, "data/{}.parquet")
        (building / "README.md").write_text(card(tally, about, front), encoding="utf-8")
        lines = yaml.safe_dump(loading(tally.parts, "{}.jsonl"), sort_keys=False)
        (building / "jsonl" / "README.md").write_text(f"---\n{lines}---\n", encoding="utf-8")
        _replace(folder, building)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return tally


def read(folder: Path, split: Split) -> Iterator[Item]:
    """The items of one published split, from its JSON lines, pictures with their full paths."""
    return (from_row(row, folder) for row in read_rows(folder / "jsonl" / f"{split}.jsonl", dict))


def read_items(path: str | Path) -> Iterator[Item]:
    """The items of a file, as a stage writes them or as they were published; pictures of the latter with full paths."""
    home = Path(path).parent.parent  # a published file lies in jsonl/, its pictures beside that
    for number, row in enumerate(read_rows(path, dict), start=1):
        try:
            yield from_row(row, home) if published(row) else from_plain(row, Item)
        except msgspec.ValidationError as error:
            raise RecordError(str(path), number, str(error), row.get("id")) from None


def published(row: Any) -> bool:
    """Whether a row is one of a published dataset, where what has no fixed shape is a string."""
    return isinstance(row, dict) and isinstance(row.get("trace"), str)


def to_row(item: Item) -> dict[str, Any]:
    """The item as a row: every column present, what has no fixed shape as a string."""
    row: dict[str, Any] = _plain(item)
    row["trace"] = msgspec.json.encode(item.trace, order="sorted").decode()
    for vote in row["votes"]:
        vote["value"] = {True: "true", False: "false"}.get(vote["value"], vote["value"])
    return row


def from_row(row: dict[str, Any], folder: Path | None = None) -> Item:
    """The way back, from a row of either format, also as `datasets` gives it."""
    row = {**row, "trace": msgspec.json.decode(row["trace"])}
    row["votes"] = [
        {**vote, "value": {"true": True, "false": False}.get(vote["value"], vote["value"])} for vote in row["votes"]
    ]
    if folder is not None:
        row["history"] = [
            {**turn, "images": [str(folder / path) for path in turn["images"]]} for turn in row["history"]
        ]
    return from_plain(row, Item)


def loading(parts: Iterable[Split], path: str) -> dict[str, Any]:
    """The front matter that tells `datasets` which file is which split, and the type of every column."""
    files = [{"split": part, "path": path.format(part)} for part in parts]
    return {
        "configs": [{"config_name": "default", "data_files": files}],
        "dataset_info": {"config_name": "default", "features": _features(COLUMNS)},
    }


def _write(items: Iterable[Item], folder: Path, image_root: Path) -> Tally:
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema(_arrow(pa, COLUMNS))
    for name in ("data", "jsonl"):
        (folder / name).mkdir()
    tally = Tally()
    pictures: dict[str, str] = {}
    with ExitStack() as stack:
        tables: dict[Split, Any] = {}
        lines: dict[Split, IO[bytes]] = {}
        waiting: dict[Split, list[dict[str, Any]]] = {}

        def flush(part: Split) -> None:
            tables[part].write_table(pa.Table.from_pylist(waiting[part], schema=schema))
            waiting[part].clear()

        for item in items:
            if item.split is None:
                raise UserError(f"The item {item.id} has no split; run `compeer cer split` first.")
            part = item.split
            if part not in tables:
                path = folder / "data" / f"{part}.parquet"
                tables[part] = stack.enter_context(parquet.ParquetWriter(path, schema, compression="zstd"))
                lines[part] = stack.enter_context((folder / "jsonl" / f"{part}.jsonl").open("wb"))
                waiting[part] = []
            row = to_row(_with_pictures(item, folder, image_root, pictures))
            lines[part].write(msgspec.json.encode(row) + b"\n")
            waiting[part].append(row)
            if len(waiting[part]) == _BATCH:
                flush(part)
            tally.add(item)
        for part in waiting:
            flush(part)
    if not tally.parts:
        raise UserError("There is nothing to publish: no item came in.")
    for part in ("valid", "test"):  # the card promises it
        sources = {value for facet, value, where in tally.facets if facet == "label source" and where == part}
        if "silver" in sources and sources & {"human", "author"}:
            raise UserError(
                f"The {part} set mixes silver labels with people's; run `compeer cer split` on these items."
            )
    return tally


def _with_pictures(item: Item, folder: Path, root: Path, known: dict[str, str]) -> Item:
    """The item with its pictures copied in and named by their content."""
    if not any(turn.images for turn in item.history):
        return item
    for path in {path for turn in item.history for path in turn.images} - known.keys():
        try:
            data = (root / path).read_bytes()
        except OSError as error:
            raise UserError(
                f"The picture {root / path} of the item {item.id} cannot be read: {error.strerror}."
            ) from None
        name = f"images/{hashlib.sha256(data).hexdigest()[:32]}{Path(path).suffix.lower()}"
        (folder / "images").mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
        known[path] = name
    history = (
        msgspec.structs.replace(turn, images=tuple(known[path] for path in turn.images)) for turn in item.history
    )
    return msgspec.structs.replace(item, history=tuple(history))


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def _arrow(pa: Any, columns: dict[str, Any]) -> list[Any]:
    def kind(shape: Any) -> Any:
        if isinstance(shape, dict):
            return pa.struct(_arrow(pa, shape))
        if isinstance(shape, list):
            return pa.list_(kind(shape[0]))
        return {"bool": pa.bool_(), "float64": pa.float64(), "int32": pa.int32(), "string": pa.string()}[shape]

    return [pa.field(name, kind(shape)) for name, shape in columns.items()]


def _features(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """The columns in the YAML form of `datasets.Features`."""

    def kind(shape: Any) -> dict[str, Any]:
        if isinstance(shape, dict):
            return {"struct": _features(shape)}
        if isinstance(shape, list):
            return {"list": shape[0] if isinstance(shape[0], str) else _features(shape[0])}
        return {"dtype": shape}

    return [{"name": name, **kind(shape)} for name, shape in columns.items()]


def _ours(folder: Path) -> bool:
    """Whether a folder may be replaced: it is empty, or its card carries our mark."""
    readme = folder / "README.md"
    return not any(folder.iterdir()) or (readme.is_file() and MARK in readme.read_text(encoding="utf-8"))


def _replace(folder: Path, building: Path) -> None:
    """Put the new folder in the old one's place. Folders are not replaced in one step: the old one moves first."""
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    if folder.exists():
        folder.rename(old)
    building.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
