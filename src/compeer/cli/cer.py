"""compeer cer: from conversations to a labelled reasoning dataset, one stage at a time or all of them.

compeer cer filter dialogues.jsonl --out kept.jsonl --model openai:qwen2.5-72b --base-url http://HOST:8000/v1
compeer cer sample kept.jsonl --out moments.jsonl
compeer cer reason moments.jsonl --out candidates.jsonl --model embedded
compeer cer label silver kept.jsonl --out items.jsonl
compeer cer build configs/cer/bundled.yaml
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from compeer.cli.options import CommandGroup, Language, Length, check_choice, print_json, print_result, print_table
from compeer.errors import UserError

if TYPE_CHECKING:  # importing these at run time would slow down every `compeer --help`
    from compeer.pipeline.ledger import Manifest
    from compeer.pipeline.stage import Stage

app = CommandGroup("cer")
label_app = CommandGroup("cer label")
app.add_typer(label_app, name="label", help="Silver labels, and labelling tasks for people.")


@dataclass
class StageOptions:
    """Options of every stage."""

    limit: int | None = None
    engine: Literal["local", "ray"] = "local"
    workers: int = 2
    seed: int = 0
    fresh: bool = False
    as_json: bool = False

    def run(
        self, stage: Stage, source: Path, out: Path, params: dict[str, Any] | None = None, **asked: Any
    ) -> Manifest | None:
        """Run a stage and print what came of it; None where it was only looked at."""
        from compeer.pipeline.runner import run_stage
        from compeer.pipeline.stage import Tools

        manifest = run_stage(
            stage,
            source,
            out,
            Tools(seed=self.seed, options=params or {}),
            limit=self.limit,
            engine=self.engine,
            workers=self.workers,
            fresh=self.fresh,
            **asked,
        )
        _print_manifest(manifest, self.as_json)
        return manifest


@dataclass
class ModelStageOptions(StageOptions):
    """Options of the stages that ask models."""

    model: list[str] | None = None
    base_url: str | None = None
    concurrency: int = 64
    preview: int = 0
    cache: Path | None = None

    def run(
        self, stage: Stage, source: Path, out: Path, params: dict[str, Any] | None = None, **asked: Any
    ) -> Manifest | None:
        from compeer.pipeline.runner import preview
        from compeer.pipeline.stage import Tools
        from compeer.pipeline.work import ModelSpec

        if self.preview:
            count = self.preview if self.limit is None else min(self.preview, self.limit)
            preview(stage, source, Tools(seed=self.seed, options=params or {}), count)
            return None
        roles = _roles(stage, self.model or []).items()
        specs = {role: ModelSpec(spec, self.base_url, self.concurrency) for role, spec in roles}
        asked = {"model_specs": specs, "concurrency": self.concurrency, "cache": self.cache}
        return super().run(stage, source, out, params, **asked)


@app.add("filter")
def filter_(source: Path, out: Path, options: ModelStageOptions, near: bool = True) -> None:
    """Remove dialogues that do not read like two people in conversation. Without --model only the rule checks run."""
    from compeer.cer import filter as filtering
    from compeer.cer.duplicates import DialogueIndex
    from compeer.dialogue import read

    params: dict[str, Any] = {}
    if near and not options.preview:
        params = filtering.write_duplicates(
            out.with_name(f"{out.name}.duplicates"), DialogueIndex(read(source)).duplicates()
        )
    manifest = options.run(filtering.STAGE if options.model else filtering.CHECKS_ONLY, source, out, params)
    if manifest and not options.as_json:
        from rich.console import Console

        Console().print(filtering.table(filtering.count(manifest.output, manifest.rejects)))


@app.add("sample")
def sample(source: Path, out: Path, options: StageOptions, n_samples: int = 3, min_history: int = 1) -> None:
    """Sample rounds of each dialogue: Gaussian, without replacement (equation 1)."""
    from compeer.cer.sample import STAGE

    options.run(STAGE, source, out, {"n_samples": n_samples, "min_history": min_history})


@app.add("reason")
def reason(
    source: Path, out: Path, options: ModelStageOptions, temperature: float = 0.7, prompt: Length = None
) -> None:
    """Generate candidates: a model's three-step reasoning and reply for each moment."""
    from compeer.cer.reason import STAGE
    from compeer.models.spec import default_prompt

    options.model = options.model or ["embedded"]
    brief = all(default_prompt(spec.rpartition("=")[2]) == "brief" for spec in options.model)
    options.run(STAGE, source, out, {"temperature": temperature, "length": prompt or ("brief" if brief else "full")})


@app.add("personas")
def personas(source: Path, out: Path, options: ModelStageOptions) -> None:
    """Describe how both people of a dialogue talk (DISC) and cluster the descriptions. An elbow plot is saved."""
    from compeer.cer import personas as described
    from compeer.dialogue import read_rows

    if options.run(described.STAGE, source, out):
        grouped = described.cluster(read_rows(out, described.Persona), seed=options.seed)
        described.write(out.parent, grouped)
        for group in grouped:
            typer.echo(f"{group.language}: {len(group.assignments)} personas in {group.k} clusters", err=True)


@app.add("rewrite")
def rewrite(source: Path, out: Path, options: ModelStageOptions, described: Path | None = None) -> None:
    """Rewrite items in another person's voice of the same cluster (-P), or freely (-R); labels are kept."""
    from compeer.cer import personas as people
    from compeer.cer.item import read_items
    from compeer.cer.rewrite import STAGE, write_item_tasks
    from compeer.dialogue import read_rows

    drawn = None
    if described:
        known = list(read_rows(described, people.Persona))
        drawn = people.draws(known, people.read_assignments(described.parent), options.seed)
    tasks = out.with_name(f"{out.name}.tasks")
    left_out = write_item_tasks(tasks, read_items(source), drawn)
    if left_out:
        typer.echo(f"{left_out} items have no persona to draw and are left out.", err=True)
    options.run(STAGE, tasks, out)


@label_app.add("silver")
def silver(
    source: Path,
    out: Path,
    failed: Path | None = None,
    n_items: int | None = None,
    per_dialogue: int | None = None,
    false_rate: float = 0.23,
    seed: int = 0,
    leakage: bool = False,
    as_json: bool = False,
) -> None:
    """Make silver labels from a corpus's own annotations, without annotators. They are always marked as silver."""
    import msgspec

    from compeer.cer.item import read_items
    from compeer.cer.silver import build_silver, text_only
    from compeer.dialogue import read, write_rows

    bad = list(read(failed)) if failed else []
    rows = build_silver(
        list(read(source)), bad, seed=seed, per_dialogue=per_dialogue, n_items=n_items, false_rate=false_rate
    )
    count = write_rows(out, rows)
    result: dict[str, Any] = {"items": count, "out": str(out)}
    if leakage:
        result["leakage"] = msgspec.to_builtins(text_only(list(read_items(out))))
    print_result(result, as_json)


@label_app.add("export")
def export_(source: Path, out: Path, annotator: str, seed: int = 0, as_json: bool = False) -> None:
    """Write blind tasks for one annotator, and the key file for reading the answers."""
    from compeer.cer.exchange import export
    from compeer.cer.item import read_items
    from compeer.dialogue import write_rows

    pairs = list(export(read_items(source), annotator, seed))
    write_rows(out, (task for task, _ in pairs))
    keys = out.with_name(f"{out.name}.keys")
    write_rows(keys, (key for _, key in pairs))
    print_result({"tasks": len(pairs), "out": str(out), "keys": str(keys)}, as_json)


@label_app.add("import")
def import_(source: Path, out: Path, judgements: list[Path], keys: list[Path], as_json: bool = False) -> None:
    """Import people's answers. Two equal answers make a label; otherwise a third person decides."""
    from compeer.cer.exchange import TaskAnswer, TaskKey, merge, votes_of
    from compeer.cer.item import Item, read_items
    from compeer.dialogue import read_rows, write_rows
    from compeer.dialogue.jsonl import rejects_path
    from compeer.pipeline.stage import Reject

    given = (row for path in judgements for row in read_rows(path, TaskAnswer))
    votes = votes_of(given, [row for path in keys for row in read_rows(path, TaskKey)])
    merged = list(merge(read_items(source), votes))
    dropped = [row for row in merged if isinstance(row, Reject)]
    kept = write_rows(out, (row for row in merged if isinstance(row, Item)))
    if beside := rejects_path(out):
        write_rows(beside, dropped)
    print_result({"items": kept, "dropped": len(dropped), "out": str(out)}, as_json)


@app.add("split")
def split(
    source: Path,
    out: Path,
    name: str = "CER",
    test: int = 574,
    include_crisis: bool = False,
    dialogues: Path | None = None,
    seed: int = 0,
    as_json: bool = False,
) -> None:
    """Split items into train, valid and test without leakage, and publish them with a dataset card."""
    from compeer.cer.duplicates import DialogueIndex
    from compeer.cer.item import read_items
    from compeer.cer.publish import About, split_and_publish
    from compeer.cer.split import SIMILAR, similar_dialogues
    from compeer.dialogue import read

    if dialogues:
        similar = DialogueIndex(read(dialogues)).duplicates(SIMILAR)
    else:
        similar = similar_dialogues(read_items(source))
    options: dict[str, Any] = {"seed": seed, "test": test, "include_crisis": include_crisis}
    tally, about = split_and_publish(
        lambda: read_items(source), out, About(name=name), similar, source.parent, **options
    )
    print_result({"out": str(out), "splits": dict(tally.items), "aside": about.aside, "leaks": about.leaks}, as_json)


@app.add("export")
def export(
    source: Path, out: Path, form: str, length: Literal["full", "brief"] = "full", as_json: bool = False
) -> None:
    """Write items as a dataset for other trainers: TRL, OpenAI fine-tuning, ShareGPT."""
    from collections import Counter

    from compeer.cer.item import read_items
    from compeer.dialogue import write_rows
    from compeer.policy.bridges.datasets import FORMATS
    from compeer.policy.bridges.datasets import export as rows

    check_choice("--format", form, *FORMATS)
    counts: Counter[str] = Counter()
    written = write_rows(out, rows(read_items(source), form, counts, length))
    if not written:
        out.unlink(missing_ok=True)
        raise UserError(
            f"{source} has nothing for {form}: {', '.join(f'{why} {n}' for why, n in counts.items() if n)}."
        )
    print_result({"out": str(out), **{name: count for name, count in counts.items() if count}}, as_json)


@app.add("gold")
def gold(out: Path, language: Language = None, as_json: bool = False) -> None:
    """Write the gold set: moments of the bundled corpus, labelled twice by the authors."""
    from compeer.cer import gold as ours
    from compeer.dialogue import write_rows

    count = write_rows(out, ours.load(language))
    print_result({"items": count, "out": str(out), "agreement": ours.agreement(), "label_source": "author"}, as_json)


@app.add("build")
def build(
    config: Path, out: Path | None = None, limit: int | None = None, engine: str | None = None, as_json: bool = False
) -> None:
    """Run all stages from a configuration. Run the command again to resume."""
    from compeer.cer.build import Build
    from compeer.cer.build import build as run_build
    from compeer.config import load

    given = {"out": out, "engine": engine}
    settings = load(config, Build, [f"{name}={value}" for name, value in given.items() if value])
    steps = run_build(settings, limit=limit)
    if as_json:
        print_json(steps)
        return
    rows = []
    for step in steps:
        rejected = ", ".join(f"{reason} {count}" for reason, count in step.rejected.items())
        rows.append((step.name, f"{step.rows:,}", rejected, step.output))
    print_table(rows, ("step", "rows", "rejected", "file"))


def _roles(stage: Stage, models: list[str]) -> dict[str, str]:
    """Models by role: `ROLE=SPEC`, or the stage's roles in order; one serves all, more generators are numbered."""
    named = {role: spec for role, equals, spec in (model.partition("=") for model in models) if equals}
    plain = [model for model in models if "=" not in model]
    open_roles = [role for role in stage.roles if role not in named]
    if len(plain) == 1:
        return named | dict.fromkeys(open_roles, plain[0])
    if plain and len(stage.roles) == 1:
        role = stage.roles[0]
        return named | {role if n == 0 else f"{role}-{n + 1}": spec for n, spec in enumerate(plain)}
    return named | dict(zip(open_roles, plain, strict=False))


def _print_manifest(manifest: Manifest, as_json: bool) -> None:
    if as_json:
        print_json(manifest)
        return
    counts, spent = manifest.counts, manifest.spent
    typer.echo(f"{manifest.stage}: {counts.rows_in:,} rows in, {counts.rows_out:,} out to {manifest.output}")
    for reason, number in sorted(counts.rejected.items(), key=lambda pair: -pair[1]):
        typer.echo(f"  rejected {number:,}: {reason}")
    if spent.asked or spent.from_cache:
        typer.echo(
            f"  asked {spent.asked:,} times ({spent.from_cache:,} from the cache, {spent.retried:,} retried), "
            f"{spent.tokens_read:,} tokens read, {spent.tokens_written:,} written"
        )
