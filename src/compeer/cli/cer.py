"""compeer cer: from conversations to a labelled reasoning dataset, one stage at a time or all of them.

compeer cer filter dialogues.jsonl --out kept.jsonl --model openai:qwen2.5-72b --base-url http://HOST:8000/v1
compeer cer sample kept.jsonl --out moments.jsonl
compeer cer reason moments.jsonl --out candidates.jsonl --model embedded
compeer cer label silver kept.jsonl --out items.jsonl
compeer cer build configs/cer/bundled.yaml
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:  # importing these at run time would slow down every `compeer --help`
    from compeer.pipeline.ledger import Manifest
    from compeer.pipeline.stage import Stage

app = typer.Typer(no_args_is_help=True)
label_app = typer.Typer(no_args_is_help=True)
app.add_typer(label_app, name="label", help="Silver labels; tasks for people and back.")

Source = Annotated[Path, typer.Argument(help="JSON lines, plain or compressed.", show_default=False)]
Out = Annotated[Path, typer.Option("--out", "-o", help="Where to write. Rejects and manifest go beside it.")]
Models = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", help="embedded, hf:… or openai:…; give it twice for two. ROLE=SPEC names a role."),
]
BaseUrl = Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server. Default: $OPENAI_BASE_URL.")]
Concurrency = Annotated[int, typer.Option(min=1, help="Requests in flight.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first N rows.")]
Preview = Annotated[int, typer.Option(min=0, help="Show the prompts of N rows and ask nothing.")]
Engine = Annotated[str, typer.Option(help="local or ray.")]
Workers = Annotated[int, typer.Option(min=1, help="Workers of the ray engine.")]
Seed = Annotated[int, typer.Option(help="Same seed, same rows.")]
Cache = Annotated[Path | None, typer.Option(help="File of answers. Default: requests.sqlite beside the output.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Begin anew instead of resuming.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


class _Run:
    """The options every model stage shares, and the run itself."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def __call__(self, stage: Stage, source: Path, out: Path, params: dict[str, Any], as_json: bool) -> Manifest:
        from compeer.errors import UserError
        from compeer.pipeline.runner import run_stage
        from compeer.pipeline.stage import Tools
        from compeer.pipeline.work import ModelSpec

        engine = self.options["engine"]
        if engine not in ("local", "ray"):
            raise UserError(f"--engine is local or ray, not {engine!r}.")
        specs = {
            role: ModelSpec(spec, self.options["base_url"], self.options["concurrency"])
            for role, spec in _roles(stage, self.options["models"] or []).items()
        }
        manifest = run_stage(
            stage,
            source,
            out,
            Tools(seed=self.options["seed"], options=params),
            model_specs=specs,
            concurrency=self.options["concurrency"],
            limit=self.options["limit"],
            preview=self.options["preview"],
            engine=engine,
            workers=self.options["workers"],
            cache=self.options["cache"],
            params=params,
            fresh=self.options["fresh"],
        )
        if not self.options["preview"]:
            _tell(manifest, as_json)
        return manifest


@app.command("filter")
def filter_(
    source: Source,
    out: Out,
    model: Models = None,
    base_url: BaseUrl = None,
    near: Annotated[bool, typer.Option(help="Search for near-duplicates first.")] = True,
    concurrency: Concurrency = 64,
    limit: Limit = None,
    preview: Preview = 0,
    engine: Engine = "local",
    workers: Workers = 2,
    seed: Seed = 0,
    cache: Cache = None,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Take out what no reader would take for two people talking. Without --model only the cheap checks are made."""
    from compeer.cer import filter as filter_report
    from compeer.cer import filter as filtering

    params: dict[str, Any] = {"llm": bool(model)}
    if near and not preview:
        params |= filtering.prepare([source], out.with_name(f"{out.name}.duplicates"))
    stage = filtering.STAGE if model else filtering.CHECKS_ONLY
    run = _Run(models=model, base_url=base_url, concurrency=concurrency, limit=limit, preview=preview, engine=engine,
               workers=workers, seed=seed, cache=cache, fresh=fresh)  # fmt: skip
    manifest = run(stage, source, out, params, as_json)
    if not preview and not as_json:
        from rich.console import Console

        Console().print(filter_report.table(filter_report.count(manifest.output, manifest.rejects)))


@app.command()
def sample(
    source: Source,
    out: Out,
    n_samples: Annotated[int, typer.Option(min=1, help="Rounds a dialogue (N_s of equation 1).")] = 3,
    min_history: Annotated[int, typer.Option(min=0, help="Turns that must come before the reply.")] = 1,
    limit: Limit = None,
    engine: Engine = "local",
    workers: Workers = 2,
    seed: Seed = 0,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Choose the rounds worth asking about: Gaussian over the dialogue, without replacement (equation 1)."""
    from compeer.cer.sample import STAGE

    run = _Run(models=None, base_url=None, concurrency=64, limit=limit, preview=0, engine=engine, workers=workers,
               seed=seed, cache=None, fresh=fresh)  # fmt: skip
    run(STAGE, source, out, {"n_samples": n_samples, "min_history": min_history}, as_json)


@app.command()
def reason(
    source: Source,
    out: Out,
    model: Models = None,
    base_url: BaseUrl = None,
    temperature: Annotated[float, typer.Option(min=0.0, max=2.0)] = 0.7,
    prompt: Annotated[str | None, typer.Option(help="full or brief instructions. Default: brief for embedded.")] = None,
    concurrency: Concurrency = 64,
    limit: Limit = None,
    preview: Preview = 0,
    engine: Engine = "local",
    workers: Workers = 2,
    seed: Seed = 0,
    cache: Cache = None,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Have one or several models think in three steps and answer, beside what the corpus's supporter said."""
    from compeer.cer.reason import STAGE

    specs = model or ["embedded"]
    brief = all(spec.partition("=")[2].startswith("embedded") or spec.startswith("embedded") for spec in specs)
    params = {"temperature": temperature, "length": prompt or ("brief" if brief else "full")}
    run = _Run(models=specs, base_url=base_url, concurrency=concurrency, limit=limit, preview=preview, engine=engine,
               workers=workers, seed=seed, cache=cache, fresh=fresh)  # fmt: skip
    run(STAGE, source, out, params, as_json)


@app.command()
def personas(
    source: Source,
    out: Out,
    model: Models = None,
    base_url: BaseUrl = None,
    concurrency: Concurrency = 64,
    limit: Limit = None,
    preview: Preview = 0,
    engine: Engine = "local",
    workers: Workers = 2,
    seed: Seed = 0,
    cache: Cache = None,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Describe how both people talk (DISC), and group the descriptions; the elbow is drawn beside the output."""
    from compeer.cer import personas as clusters
    from compeer.cer.personas import STAGE, Persona
    from compeer.dialogue import read_rows

    run = _Run(models=model, base_url=base_url, concurrency=concurrency, limit=limit, preview=preview, engine=engine,
               workers=workers, seed=seed, cache=cache, fresh=fresh)  # fmt: skip
    run(STAGE, source, out, {}, as_json)
    if not preview:
        grouped = clusters.cluster(read_rows(out, Persona), seed=seed)
        clusters.write(out.parent, grouped)
        for group in grouped:
            typer.echo(f"{group.language}: {len(group.assignments)} personas in {group.k} clusters", err=True)


@app.command()
def rewrite(
    source: Source,
    out: Out,
    described: Annotated[
        Path | None, typer.Option("--personas", help="From `cer personas`; without: no persona (-R).")
    ] = None,
    model: Models = None,
    base_url: BaseUrl = None,
    concurrency: Concurrency = 64,
    limit: Limit = None,
    preview: Preview = 0,
    engine: Engine = "local",
    workers: Workers = 2,
    seed: Seed = 0,
    cache: Cache = None,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Rewrite items in another person's voice of the same cluster (-P), or freely (-R); labels are kept."""
    from compeer.cer import personas as clusters
    from compeer.cer import rewrite as variants
    from compeer.cer.item import read_items
    from compeer.cer.personas import Persona
    from compeer.cer.rewrite import STAGE
    from compeer.dialogue import read_rows, write_rows

    drawn = None
    if described:
        people = list(read_rows(described, Persona))
        drawn = clusters.draws(people, clusters.read_assignments(described.parent), seed)
    items = [item for item in read_items(source) if not variants.is_copy(item)]
    usable = [item for item in items if drawn is None or item.dialogue in drawn]
    if len(usable) < len(items):
        typer.echo(f"{len(items) - len(usable)} items have no persona to draw and are left out.", err=True)
    tasks = out.with_name(f"{out.name}.tasks")
    write_rows(tasks, variants.item_tasks(usable, drawn))
    run = _Run(models=model, base_url=base_url, concurrency=concurrency, limit=limit, preview=preview, engine=engine,
               workers=workers, seed=seed, cache=cache, fresh=fresh)  # fmt: skip
    run(STAGE, tasks, out, {}, as_json)


@label_app.command()
def silver(
    source: Source,
    out: Out,
    failed: Annotated[
        Path | None, typer.Option(help="Conversations that did not help, for replies that do not.")
    ] = None,
    n_items: Annotated[int | None, typer.Option(min=1, help="Stop after this many.")] = None,
    per_dialogue: Annotated[int | None, typer.Option(min=1, help="Rounds a dialogue; default: all.")] = None,
    false_rate: Annotated[
        float, typer.Option(min=0.0, max=0.5, help="Share of wrong steps; the paper has 23 %.")
    ] = 0.23,
    seed: Seed = 0,
    leakage: Annotated[bool, typer.Option(help="Check that the text alone does not give labels away.")] = False,
    as_json: AsJson = False,
) -> None:
    """Label without annotators, from what a corpus's own annotators noted. Always marked as silver."""
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
    _print(result, as_json)


@label_app.command("export")
def export_(
    source: Source,
    out: Out,
    annotator: Annotated[str, typer.Option(help="For whom; each person sees an order of their own.")],
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Write blind tasks for one annotator, and the key file that reading the answers needs."""
    from compeer.cer.exchange import export
    from compeer.cer.item import read_items
    from compeer.dialogue import write_rows

    pairs = list(export(read_items(source), annotator, seed))
    write_rows(out, (task for task, _ in pairs))
    keys = out.with_name(f"{out.name}.keys")
    write_rows(keys, (key for _, key in pairs))
    _print({"tasks": len(pairs), "out": str(out), "keys": str(keys)}, as_json)


@label_app.command("import")
def import_(
    source: Source,
    out: Out,
    judgements: Annotated[
        list[Path], typer.Option("--judgements", help="Answers of an annotator; give it once a file.")
    ],
    keys: Annotated[list[Path], typer.Option("--keys", help="Key files of the exports.")],
    as_json: AsJson = False,
) -> None:
    """Read people's answers: two who agree make a label, else a third decides, else there is none."""
    from compeer.cer.exchange import Judgement, Key, merge, votes_of
    from compeer.cer.item import Item, read_items
    from compeer.dialogue import read_rows, write_rows
    from compeer.dialogue.jsonl import rejects_path
    from compeer.pipeline.stage import Reject

    given = (row for path in judgements for row in read_rows(path, Judgement))
    votes = votes_of(given, [row for path in keys for row in read_rows(path, Key)])
    merged = list(merge(read_items(source), votes))
    dropped = [row for row in merged if isinstance(row, Reject)]
    kept = write_rows(out, (row for row in merged if isinstance(row, Item)))
    if beside := rejects_path(out):
        write_rows(beside, dropped)
    _print({"items": kept, "dropped": len(dropped), "out": str(out)}, as_json)


@app.command()
def split(
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the dataset.")],
    name: Annotated[str, typer.Option(help="Name on the dataset card.")] = "CER",
    test: Annotated[int, typer.Option(min=0, help="Items of the test set, where there are enough.")] = 574,
    include_crisis: Annotated[bool, typer.Option(help="Reviewed crisis items may be trained on.")] = False,
    dialogues: Annotated[Path | None, typer.Option(help="The dialogues, for the search of near-duplicates.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Part items into train, valid and test without leakage, and publish them with a dataset card."""
    from collections import Counter

    from compeer.cer.filter import text_of
    from compeer.cer.item import read_items
    from compeer.cer.publish import About, publish
    from compeer.cer.split import leaks, near_duplicates
    from compeer.cer.split import split as part
    from compeer.dialogue import read

    texts = [(dialogue.id, text_of(dialogue)) for dialogue in read(dialogues)] if dialogues else None
    parted = part(list(read_items(source)), seed=seed, test=test, include_crisis=include_crisis, texts=texts)
    found = Counter(str(leak.kind) for leak in leaks(parted.items, texts, near_duplicates))
    aside = Counter(reject.reason for reject in parted.aside)
    publish(parted.items, out, About(name=name, leaks=dict(found), aside=dict(aside)), image_root=source.parent)
    counts = Counter(str(item.split) for item in parted.items)
    _print({"out": str(out), "splits": dict(counts), "aside": dict(aside), "leaks": dict(found)}, as_json)


@app.command()
def gold(
    out: Out,
    language: Annotated[str | None, typer.Option(help="en or zh; default: both.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the gold set: moments of the bundled corpus, labelled twice by the authors."""
    from compeer.cer import gold as ours
    from compeer.dialogue import write_rows
    from compeer.errors import UserError

    if language not in (None, "en", "zh"):
        raise UserError(f"--language is en or zh, not {language!r}.")
    count = write_rows(out, ours.load(language))  # type: ignore[arg-type]
    _print({"items": count, "out": str(out), "agreement": ours.agreement(), "label_source": "author"}, as_json)


@app.command()
def build(
    config: Annotated[Path, typer.Argument(help="A YAML file; configs/cer has some.", show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder, instead of the one in the file.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="N dialogues of each corpus, for a trial.")] = None,
    engine: Annotated[str | None, typer.Option(help="local or ray, instead of the file's.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run the whole chain from a configuration; run it again to go on where it stopped."""
    import msgspec

    from compeer.cer.build import build as run_build
    from compeer.cer.build import read_config

    given = {"out": str(out) if out else None, "engine": engine}
    settings = msgspec.structs.replace(read_config(config), **{key: value for key, value in given.items() if value})
    steps = run_build(settings, limit=limit)
    if as_json:
        typer.echo(json.dumps([msgspec.structs.asdict(step) for step in steps], indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("step", "rows", "rejected", "file", box=None)
    for step in steps:
        rejected = ", ".join(f"{reason} {count}" for reason, count in step.rejected.items())
        table.add_row(step.name, f"{step.rows:,}", rejected, step.output)
    Console().print(table)


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


def _tell(manifest: Manifest, as_json: bool) -> None:
    import msgspec

    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(manifest)).decode())
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


def _print(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(result, ensure_ascii=False, indent=2))
    else:
        for key, value in result.items():
            typer.echo(f"{key}: {value}")
