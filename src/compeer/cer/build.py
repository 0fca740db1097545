"""The whole chain from a configuration: corpora in, a published dataset out.

    compeer cer build configs/cer/bundled.yaml

Every step leaves its file, its rejects and its manifest in the output folder, under a number that says the order.
Run again = resume: a stage goes on where it was (`compeer.pipeline.runner`), a step over whole files is done again only
when what it is made from has changed. The configuration as it was used lies beside the results.

Two ways to labels, after the paper and before it: with a `generator` among the models, candidates are written for
people to label (`compeer cer label export`); with `labels: silver`, items are made and labelled from what the
corpora's annotators noted, so that a judge can be trained before anyone has labelled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from compeer import __version__
from compeer.cer import filter as filtering
from compeer.cer import personas as clusters
from compeer.cer import rewrite as variants
from compeer.cer.duplicates import DialogueIndex
from compeer.cer.item import read_items
from compeer.cer.personas import STAGE as PERSONAS
from compeer.cer.personas import Persona
from compeer.cer.publish import About, split_and_publish
from compeer.cer.reason import STAGE as REASON
from compeer.cer.rewrite import STAGE as REWRITE
from compeer.cer.sample import STAGE as SAMPLE
from compeer.cer.split import SIMILAR
from compeer.corpora import importing, load
from compeer.dialogue import read, read_rows, write_json, write_rows
from compeer.errors import UserError
from compeer.pipeline.ledger import Manifest, measure
from compeer.pipeline.runner import one_cluster, run_stage
from compeer.pipeline.stage import Progress, Stage, Tools
from compeer.pipeline.work import ModelSpec


class CorpusSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A corpus and where it lies; `bundled` needs no path."""

    corpus: str
    path: str | None = None
    split: str | None = None
    limit: int | None = None
    options: dict[str, Any] = {}


class Build(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A build, as its YAML file says it."""

    name: str
    out: str
    corpora: tuple[CorpusSource, ...]
    failed: tuple[CorpusSource, ...] = ()  # conversations that did not help: replies for silver labels
    seed: int = 0
    models: dict[str, ModelSpec] = {}  # by role: filter, generator, profiler, rewriter, judge
    concurrency: int = 64
    engine: Literal["local", "ray"] = "local"
    workers: int = 2
    near_duplicates: bool = True
    filter: dict[str, Any] = {}
    sample: dict[str, Any] = {}
    reason: dict[str, Any] = {}
    labels: Literal["silver", "none"] = "silver"
    silver: dict[str, Any] = {}
    rewrite: bool = False
    split: dict[str, Any] = {}


class BuildStep(msgspec.Struct, frozen=True):
    name: str
    output: str
    rows: int
    rejected: dict[str, int] = {}
    resumed: bool = False


def build(config: Build, *, limit: int | None = None, progress: Progress | None = None) -> list[BuildStep]:
    """Run the chain; `limit` takes that many dialogues of each corpus, for a trial."""
    with one_cluster():
        return _Chain(config, limit, progress or Progress()).run()


class _Chain:
    """The steps in order, each reading what the one before it wrote."""

    def __init__(self, config: Build, limit: int | None, progress: Progress) -> None:
        self.config, self.limit, self.progress = config, limit, progress
        self.folder = Path(config.out)
        self.steps: list[BuildStep] = []
        self.manifests: list[Manifest] = []

    def run(self) -> list[BuildStep]:
        self.folder.mkdir(parents=True, exist_ok=True)
        used = msgspec.structs.asdict(self.config) | {"limit": self.limit, "version": __version__}
        write_json(self.folder / "config.json", used)
        dialogues = self._import("01-dialogues", self.config.corpora)
        self.dialogues = dialogues
        kept = self._filter(dialogues)
        items = self._label(kept)
        if self.config.rewrite:
            items = self._rewrite(kept, items)
        self._publish(kept, items)
        return self.steps

    def _import(self, name: str, sources: tuple[CorpusSource, ...]) -> Path:
        def make(out: Path) -> dict[str, int]:
            outcomes = (outcome for source in sources for outcome in self._outcomes(source))
            summary = importing.run(outcomes, str(out))
            return dict(summary.reasons)

        files = [Path(source.path) for source in sources if source.path and Path(source.path).is_file()]
        return self._made(name, files, {"sources": sources, "limit": self.limit}, make)

    def _outcomes(self, source: CorpusSource) -> Iterator[Any]:
        limit = min(filter(None, (source.limit, self.limit)), default=None)
        path = Path(source.path) if source.path else Path()
        found = load(source.corpus, path, split=source.split, **source.options)
        for number, outcome in enumerate(found):
            if limit is not None and number >= limit:
                return
            yield outcome

    def _filter(self, dialogues: Path) -> Path:
        options = dict(self.config.filter)
        if self.config.near_duplicates:
            options |= filtering.write_duplicates(self.folder / "duplicates.jsonl", self.index.duplicates())
        stage = filtering.STAGE if filtering.ROLE in self.config.models else filtering.CHECKS_ONLY
        kept = self._stage("02-kept", stage, dialogues, options)
        report = filtering.count(kept, self.folder / "02-kept.rejects.jsonl")
        write_json(self.folder / "drop-report.json", report.to_dict())
        return kept

    def _label(self, kept: Path) -> Path:
        made = []
        if "generator" in self.config.models:
            sampled = self._stage("03-moments", SAMPLE, kept, self.config.sample)
            made.append(self._stage("04-candidates", REASON, sampled, self.config.reason))
        if self.config.labels == "silver":
            made.append(self._silver(kept))
        if not made:
            raise UserError("Nothing to make: name a generator among the models, or set labels: silver.")
        if len(made) == 1:
            return made[0]
        return self._made("06-items", made, {}, partial(_concatenate, made))

    def _silver(self, kept: Path) -> Path:
        from compeer.cer.silver import build_silver

        failed = self._import("00-failed", self.config.failed) if self.config.failed else None

        def make(out: Path) -> dict[str, int]:
            bad = list(read(failed)) if failed else []
            good = list(read(kept))  # moments trade with each other, so all have to be there
            write_rows(out, build_silver(good, bad, seed=self.config.seed, flagged=True, **self.config.silver))
            return {}

        inputs = [kept, *([failed] if failed else [])]
        return self._made("05-silver", inputs, {"seed": self.config.seed, **self.config.silver}, make)

    def _rewrite(self, kept: Path, items: Path) -> Path:
        profiles = self._stage("07-personas", PERSONAS, kept, {})
        personas = list(read_rows(profiles, Persona))
        grouped = clusters.cluster(personas, seed=self.config.seed)
        clusters.write(self.folder, grouped)
        drawn = clusters.draws(personas, [one for group in grouped for one in group.assignments], self.config.seed)
        rewritten = []
        for name, draws in (("08-rewrite", None), ("09-persona", drawn)):
            make = partial(_tasks, items, draws)
            tasks = self._made(f"{name}-tasks", [items, profiles], {"seed": self.config.seed}, make)
            rewritten.append(self._stage(name, REWRITE, tasks, {}))
        made = variants.variants(*(list(read_items(path)) for path in (items, *rewritten)))
        variants.write(self.folder, made)
        return self._made("10-items", [items, rewritten[1]], {}, partial(_concatenate, [items, rewritten[1]]))

    def _publish(self, kept: Path, items: Path) -> None:
        similar = self.index.signatures.near_duplicates(SIMILAR, {dialogue.id for dialogue in read(kept)})
        about = About(name=self.config.name, manifests=self.manifests)
        options = {"seed": self.config.seed, **self.config.split}
        out = self.folder / "dataset"
        tally, about = split_and_publish(lambda: read_items(items), out, about, similar, self.folder, **options)
        self.steps.append(BuildStep("dataset", str(out), tally.items.total(), dict(about.aside)))

    @cached_property
    def index(self) -> DialogueIndex:
        """The imported dialogues; filter and split search it for near-duplicates with thresholds of their own."""
        return DialogueIndex(read(self.dialogues))

    def _stage(self, name: str, stage: Stage, source: Path, options: dict[str, Any]) -> Path:
        out = self.folder / f"{name}.jsonl"
        roles = {role: spec for role, spec in self.config.models.items() if role.split("-")[0] in stage.roles}
        manifest = run_stage(
            stage,
            source,
            out,
            Tools(seed=self.config.seed, options=options),
            model_specs=roles,
            concurrency=self.config.concurrency,
            engine=self.config.engine,
            workers=self.config.workers,
            cache=self.folder / "requests.sqlite",
            progress=self.progress,
        )
        self.manifests.append(manifest)
        self.steps.append(BuildStep(name, str(out), manifest.counts.rows_out, manifest.counts.rejected))
        return out

    def _made(
        self, name: str, inputs: list[Path], options: dict[str, Any], make: Callable[[Path], dict[str, int]]
    ) -> Path:
        """A file made from whole files: made again only when these, the options or the version have changed."""
        out, note = self.folder / f"{name}.jsonl", self.folder / f"{name}.made.json"
        asked = msgspec.json.encode(options, order="sorted").decode()
        parts = [*(measure(path)[0] for path in inputs), __version__, asked]
        key = hashlib.sha256("\x1f".join(parts).encode()).hexdigest()
        if out.exists() and note.exists():
            known = msgspec.json.decode(note.read_bytes())
            if known.get("key") == key:
                self.steps.append(BuildStep(name, str(out), known["rows"], known["rejected"], resumed=True))
                return out
        rejected = make(out)
        rows = measure(out)[1]
        note.write_bytes(msgspec.json.encode({"key": key, "rows": rows, "rejected": rejected}))
        self.steps.append(BuildStep(name, str(out), rows, rejected))
        return out


def _tasks(items: Path, draws: dict[str, Persona] | None, out: Path) -> dict[str, int]:
    left_out = variants.write_item_tasks(out, read_items(items), draws)
    return {"no-persona": left_out} if left_out else {}


def _concatenate(paths: Iterable[Path], out: Path) -> dict[str, int]:
    write_rows(out, (item for path in paths for item in read_items(path)))
    return {}
