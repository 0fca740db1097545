"""The dataset as a folder that `datasets.load_dataset(FOLDER)` reads, whole or not at all, with its card.

    README.md              the card, with the type of every column
    data/train.parquet     what load_dataset(FOLDER) reads
    jsonl/train.jsonl      the same rows as JSON lines: load_dataset(FOLDER/jsonl), which has the types in a README.md
                           of its own, because `datasets` reads one format a folder
    images/<hash>.png      images, once each, by content; rows name them relative to the folder

Columns are the same in every split, whatever the items hold: the schema comes from the type of an item, so that a
column of nothing but None keeps its type. What has no fixed shape (`trace`, a vote's value) is a string.
The Parquet files also have the pictures themselves, as `Image()` in the column `images`, in the order of the history.
`compeer.cer.item.read_items` reads them back. Rows are streamed; a split of a million items needs no more memory than
one of a thousand. The folder is built beside the target and takes its place when it is complete.

The card has counts by split, language, source, label source and variant; how labels are distributed, with the share of
False in each step (the paper has 23 %); licences with the most restrictive one named; crisis items; leakage;
how it was made; what it is not. Everything is counted from the items while they are written, nothing is
claimed that was not counted.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, cast, get_args

import msgspec
import msgspec.inspect as info
import yaml

from compeer.cer.duplicates import Duplicate
from compeer.cer.item import Item, Preference, Split, to_row
from compeer.cer.rewrite import origin
from compeer.cer.split import leaks, plan
from compeer.errors import UserError
from compeer.pipeline.ledger import Manifest
from compeer.reasoning import STEPS

MARK = "<!-- made with compeer -->"  # by this a folder is known as one that may be written again
SPLITS: tuple[Split, ...] = get_args(Split)
_FACETS = ("language", "source", "label source", "variant")

#: what a licence asks, the strictest first. Without a licence nothing is permitted.
_RESTRICTIONS: tuple[tuple[str, str], ...] = (
    (r"^\s*$|none|unknown|not stated|proprietary", "no licence stated, so no permission to pass it on"),
    (r"research|academic", "research use only"),
    (r"\bnc\b", "no commercial use"),
    (r"\b(sa|nd|gpl|agpl)\b", "changes only under conditions"),
    (r"\bby\b", "attribution"),
    (r"^(?!.*(cc0|public domain))", "keep the notice"),
    (r"", "none"),
)
_HUB_IDS = ("cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "cc-by-nc-sa-4.0", "mit", "apache-2.0")


class About(msgspec.Struct, frozen=True, kw_only=True):
    """Facts for the card besides the counts."""

    name: str = "CER"
    manifests: Sequence[Manifest] = ()  # of the stages, in order
    leaks: Mapping[str, int] | None = None  # kind -> how many were found; None: not searched for
    aside: Mapping[str, int] = {}  # reason -> items kept out of every split


class DatasetCounts:
    def __init__(self) -> None:
        self.items: Counter[Split] = Counter()
        self.facets: Counter[tuple[str, str, Split]] = Counter()
        self.answers: Counter[tuple[str, bool | str, Split]] = Counter()
        self.licences: Counter[tuple[str, str]] = Counter()
        self.crisis: Counter[Split] = Counter()
        self.dialogues: dict[Split, set[str]] = {}

    def add(self, item: Item) -> None:
        part = item.split
        assert part is not None
        self.items[part] += 1
        values = (item.language, item.source, item.label_source or "unlabelled", item.variant)
        self.facets.update((facet, value, part) for facet, value in zip(_FACETS, values, strict=True))
        for question in (*STEPS, "preference"):
            if (value := getattr(item.labels, question)) is not None:
                self.answers[question, value, part] += 1
        self.licences[item.licence, item.source] += 1
        self.crisis[part] += item.crisis
        self.dialogues.setdefault(part, set()).add(origin(item))

    @property
    def parts(self) -> list[Split]:
        return [part for part in SPLITS if self.items[part]]


def most_restrictive(licences: Iterable[str]) -> tuple[str, str]:
    """The licence that binds most, and what it asks.

    >>> most_restrictive(["MIT", "CC BY-NC 4.0", "CC BY 4.0"])
    ('CC BY-NC 4.0', 'no commercial use')
    """
    rank, licence = min((_rank(licence), licence) for licence in licences)
    return licence, _RESTRICTIONS[rank][1]


def _rank(licence: str) -> int:
    return next(n for n, (pattern, _) in enumerate(_RESTRICTIONS) if re.search(pattern, licence.lower()))


def card(tally: DatasetCounts, about: About, loading: Mapping[str, Any]) -> str:
    """The whole README.md. `loading` tells `datasets` how to read the files (configs, features)."""
    import jinja2

    strictest, meaning = most_restrictive(licence for licence, _ in tally.licences)
    identifier = re.sub(r"\s+", "-", strictest.strip().lower())
    known = identifier in _HUB_IDS
    languages = sorted({value for facet, value, _ in tally.facets if facet == "language"})
    front = {
        "language": languages,
        "license": identifier if known else "other",
        **({} if known else {"license_name": strictest or "none stated"}),
        "pretty_name": about.name,
        "task_categories": ["text-generation", "text-classification"],
        "size_categories": [_size(tally.items.total())],
        "tags": ["emotional-support", "empathetic-reasoning", "reward-modeling", "compeer"],
        **loading,
    }
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters["cell"] = _cell
    template = environment.from_string(Path(__file__).with_name("card.md").read_text(encoding="utf-8"))
    return template.render(
        front=yaml.safe_dump(front, sort_keys=False, allow_unicode=True),
        mark=MARK,
        about=about,
        tally=tally,
        parts=tally.parts,
        each=lambda table, *key: [table[(*key, part) if key else part] for part in tally.parts],
        dialogues={part: len(found) for part, found in tally.dialogues.items()},
        facets=sorted(
            {(facet, value) for facet, value, _ in tally.facets}, key=lambda one: (_FACETS.index(one[0]), one)
        ),
        labels=_label_shares(tally),
        counted=lambda pairs: ", ".join(f"{name} {count:,}" for name, count in pairs if count),
        strictest=strictest,
        meaning=meaning,
    )


def _label_shares(tally: DatasetCounts) -> dict[str, list[str]]:
    """In each split the share of False in each step, and the share of each preference."""
    shares: dict[str, list[str]] = {}
    values: dict[str, tuple[bool | str, ...]] = {
        **dict.fromkeys(STEPS, (False, True)),
        "preference": get_args(Preference),
    }
    for question, known in values.items():
        for value in known:
            if value is True:
                continue
            found = []
            for part in tally.parts:
                total = sum(tally.answers[question, other, part] for other in known)
                of = f" of {total:,}" if value is False else ""
                found.append(f"{tally.answers[question, value, part] / total:.1%}{of}" if total else "none labelled")
            shares[f"{question}, {value}"] = found
    return shares


def _cell(value: object) -> str:
    """A value as a cell of a Markdown table."""
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def _size(count: int) -> str:
    """The hub's size category.

    >>> _size(574), _size(11_140)
    ('n<1K', '10K<n<100K')
    """
    steps = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
    return next((name for bound, name in steps if count < bound), "1M<n<10M")


_BATCH = 512


def publish(
    items: Iterable[Item], folder: Path, about: About = About(), *, image_root: Path | None = None
) -> DatasetCounts:
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
        front["dataset_info"]["features"].append({"name": "images", "list": "image"})
        (building / "README.md").write_text(card(tally, about, front), encoding="utf-8")
        lines = yaml.safe_dump(loading(tally.parts, "{}.jsonl"), sort_keys=False)
        (building / "jsonl" / "README.md").write_text(f"---\n{lines}---\n", encoding="utf-8")
        _replace(folder, building)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return tally


def split_and_publish(
    read: Callable[[], Iterable[Item]],
    folder: Path,
    about: About,
    similar: Sequence[Duplicate],
    image_root: Path,
    **options: Any,
) -> tuple[DatasetCounts, About]:
    """Split the items, look for leaks, and publish. `read` gives the items anew each time; `options` are `plan`'s."""
    planned = plan(read(), similar=similar, **options)
    found = Counter(str(leak.kind) for leak in leaks(planned.placed(read()), similar))
    about = msgspec.structs.replace(about, leaks=dict(found), aside=planned.aside)
    return publish(planned.placed(read()), folder, about, image_root=image_root), about


def loading(parts: Iterable[Split], path: str) -> dict[str, Any]:
    """The front matter that tells `datasets` which file is which split, and the type of every column."""
    files = [{"split": part, "path": path.format(part)} for part in parts]
    return {
        "configs": [{"config_name": "default", "data_files": files}],
        "dataset_info": {"config_name": "default", "features": _features(_columns())},
    }


def _write(items: Iterable[Item], folder: Path, image_root: Path) -> DatasetCounts:
    import pyarrow as pa
    from pyarrow import parquet

    shown = pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())]))  # `Image()` of datasets
    schema = pa.schema([*_columns(), pa.field("images", shown)])
    for name in ("data", "jsonl"):
        (folder / name).mkdir()
    tally = DatasetCounts()
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
            paths = [path for turn in row["history"] for path in turn["images"]]
            waiting[part].append(
                row | {"images": [{"bytes": (folder / path).read_bytes(), "path": Path(path).name} for path in paths]}
            )
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


def _columns(of: Any = Item) -> list[Any]:
    """The columns of a struct as Arrow fields. What has no fixed shape (a vote's value, the trace) is a string."""
    import pyarrow as pa

    plain = {info.IntType: pa.int32(), info.FloatType: pa.float64(), info.BoolType: pa.bool_()}

    def kind(of: Any) -> Any:
        if isinstance(of, info.UnionType):
            some = [one for one in of.types if not isinstance(one, info.NoneType)]
            return kind(some[0]) if len(some) == 1 else pa.string()
        if isinstance(of, info.StructType):
            return pa.struct(_columns(of.cls))
        if isinstance(of, info.VarTupleType):
            return pa.list_(kind(of.item_type))
        return plain.get(type(of), pa.string())

    return [pa.field(one.name, kind(one.type)) for one in cast(info.StructType, info.type_info(of)).fields]


def _features(columns: Iterable[Any]) -> list[dict[str, Any]]:
    """Arrow fields in the YAML form of `datasets.Features`."""
    import pyarrow as pa

    def kind(of: Any) -> dict[str, Any]:
        if pa.types.is_struct(of):
            return {"struct": _features(of)}
        if pa.types.is_list(of):
            return {"list": next(iter(kind(of.value_type).values()))}
        return {"dtype": "float64" if pa.types.is_floating(of) else str(of)}

    return [{"name": one.name, **kind(one.type)} for one in columns]


def _ours(folder: Path) -> bool:
    """Whether a folder may be replaced: it is empty, or its card carries our mark."""
    readme = folder / "README.md"
    return not any(folder.iterdir()) or (readme.is_file() and MARK in readme.read_text(encoding="utf-8"))


def _replace(folder: Path, building: Path) -> None:
    """Replace the old folder. A folder cannot be replaced in one step, so the old one is moved away first."""
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    if folder.exists():
        folder.rename(old)
    building.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
