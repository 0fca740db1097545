"""compeer reward eval, consistency, timing and attack: measuring judges.

compeer reward eval test.jsonl --model UnifiReward=hf:runs/unified --model hf:runs/prm,hf:runs/orm --probe train.jsonl
compeer reward consistency moments.jsonl --policy hf:runs/policy --judge openai:gpt-4o --model … --model … --out study
compeer reward timing test.jsonl --model hf:runs/prm,hf:runs/orm --model hf:runs/unified
compeer reward attack test.jsonl --model hf:runs/unified --threshold 0.25
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from compeer.cer.item import Item
    from compeer.reward.judge import Judge

Sources = Annotated[
    list[Path] | None,
    typer.Argument(help="Labelled items, JSON lines; several files are several sets.", show_default=False),
]
Source = Annotated[Path, typer.Argument(help="Items, JSON lines, plain or compressed.", show_default=False)]
Models = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", help="A judge, or PRM,ORM as one; NAME=SPEC names it. Give it once a judge."),
]
Kinds = Annotated[str | None, typer.Option(help="unified, prm or orm, where the judge does not say so itself.")]
BaseUrl = Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server. Default: $OPENAI_BASE_URL.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder for tables, figures and kept judgements.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first N items of each file.")]
Both = Annotated[bool, typer.Option("--orders", help="Show each pair in both orders, and measure the difference.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def evaluate(
    sources: Sources = None,
    model: Models = None,
    probe: Annotated[list[Path] | None, typer.Option(help="Labelled items for the linear probe; once a file.")] = None,
    earlier: Annotated[
        Path | None, typer.Option("--from", help="Make the report of a kept run again; asks no judge.")
    ] = None,
    out: Out = None,
    orders: Both = False,
    kind: Kinds = None,
    base_url: BaseUrl = None,
    limit: Limit = None,
    seed: Annotated[int, typer.Option(help="Of the resampling.")] = 0,
    rounds: Annotated[int, typer.Option(min=2, help="Resamples for the intervals.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """Measure judges on labelled items, side by side: the columns of Table 1 and what lies behind them."""
    import tempfile

    from compeer.errors import UserError
    from compeer.reward.evaluation.evaluate import add_probe, ask_judge, keep_sets, write
    from compeer.reward.evaluation.folder import Folder
    from compeer.reward.evaluation.table import markdown

    if earlier is None and not (sources and (model or probe)):
        raise UserError("Give ITEMS and at least one --model or --probe, or --from with the folder of an earlier run.")
    if earlier is not None and (sources or model or probe):
        raise UserError("--from makes a report of what was kept; it takes no ITEMS, --model or --probe.")
    with tempfile.TemporaryDirectory() as passing:
        where = out or earlier or Path(passing)
        if earlier is not None:
            folder = Folder.existing(earlier)
        else:
            folder = Folder(where)
            keep_sets(folder, {name: _items(path, limit) for name, path in _named(sources or []).items()})
            for name, spec in _judges(model or []).items():
                ask_judge(_open(spec, kind, base_url), folder, name, orders="both" if orders else "one")
            for name, path in _named(probe or []).items():
                add_probe(folder, name, _items(path, None))
        report = write(folder, where, rounds=rounds, seed=seed, figures=where != Path(passing))
    kept = where != Path(passing)
    _tell(report, markdown(report, brief=kept), as_json)
    if kept and not as_json:
        typer.echo(f"All of it: {where / 'report.md'}, report.json, report.png")


def consistency(
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the study; run it again to go on.")],
    judge: Annotated[str, typer.Option(help="The chat model that assesses: openai:…, hf:… or embedded.")],
    model: Models = None,
    policy: Annotated[
        str | None, typer.Option(help="A model that answers with reasoning. Default: the candidates in ITEMS.")
    ] = None,
    per_item: Annotated[int, typer.Option(min=1, help="Answers to each moment.")] = 1,
    kind: Kinds = None,
    base_url: BaseUrl = None,
    judge_url: Annotated[str | None, typer.Option(help="Address of the assessing model's server, if another.")] = None,
    policy_url: Annotated[str | None, typer.Option(help="Address of the policy's server, if another.")] = None,
    direct: Annotated[bool, typer.Option(help="Also ask directly whether verdicts contradict each other.")] = True,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests in flight.")] = 64,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Count how often verdicts on reasoning and reply contradict each other (Figure 5a)."""
    from compeer.errors import UserError
    from compeer.pipeline.work import ModelSpec
    from compeer.reward.consistency import collect, markdown, study

    if not model:
        raise UserError("Name the reward models: --model PRM,ORM --model UNIFIED.")
    samples: Sequence[Item] = _items(source, limit)
    if policy:
        writer = ModelSpec(policy, policy_url or base_url, concurrency)
        brief = {"length": "brief"} if policy.startswith("embedded") else {}
        samples = collect(samples, writer, out, per_item=per_item, options=brief)
    judges = {name: _open(spec, kind, base_url) for name, spec in _judges(model).items()}
    assessor = ModelSpec(judge, judge_url or base_url, concurrency)
    report = study(samples, judges, assessor, out, policy=policy or "", ask_verdicts=direct)
    _tell(report, markdown(report), as_json)


def timing(
    source: Source,
    model: Models = None,
    out: Out = None,
    batch: Annotated[int, typer.Option(min=1, help="Cases at a time.")] = 32,
    rounds: Annotated[int, typer.Option(min=1, help="Times over.")] = 3,
    orders: Both = False,
    kind: Kinds = None,
    base_url: BaseUrl = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Time judges on the same items, in turn; the first one is the measure of the others (Figure 5b)."""
    import msgspec

    from compeer.errors import UserError
    from compeer.models.request import run
    from compeer.reward.case import case_of
    from compeer.reward.timing import Timing, draw, markdown, time_study

    if not model:
        raise UserError("Name the judges to time: --model PRM,ORM --model UNIFIED.")
    cases = [case_of(item) for item in _items(source, limit)]
    judges = {name: _open(spec, kind, base_url) for name, spec in _judges(model).items()}

    async def work() -> Timing:
        try:
            return await time_study(judges, cases, batch=batch, rounds=rounds, orders="both" if orders else "one")
        finally:
            for judge in judges.values():
                await judge.close()

    timed = run(work())
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "timing.md").write_text(markdown(timed), encoding="utf-8")
        (out / "timing.json").write_bytes(msgspec.json.format(msgspec.json.encode(timed)) + b"\n")
        draw(timed, out / "timing.png")
    _tell(timed, markdown(timed), as_json)


def attack(
    source: Source,
    model: Annotated[str, typer.Option("--model", "-m", help="The judge, or PRM,ORM as one; NAME=SPEC names it.")],
    threshold: Annotated[float, typer.Option(help="The most by which an attack may raise the mean total.")] = 0.25,
    out: Out = None,
    orders: Both = False,
    kind: Kinds = None,
    base_url: BaseUrl = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Attack a judge with outputs that deserve no reward; ends with status 1 when one raises it past the threshold."""
    from compeer.models.request import run
    from compeer.reward.attack import Tried, markdown, measured, write
    from compeer.reward.attack import attack as run_attack

    ((name, spec),) = _judges([model]).items()
    judge = _open(spec, kind, base_url)

    async def work() -> list[Tried]:
        try:
            return await run_attack(judge, _items(source, limit), out, orders="both" if orders else "one")
        finally:
            await judge.close()

    report = measured(run(work()), name, threshold=threshold)
    if out is not None:
        write(report, out)
    _tell(report, markdown(report), as_json)
    if report.broken:
        raise typer.Exit(1)


def _open(spec: str, kind: str | None, base_url: str | None) -> Judge:
    from compeer.errors import UserError
    from compeer.reward.spec import open_judge

    if kind not in (None, "unified", "prm", "orm"):
        raise UserError(f"--kind is unified, prm or orm, not {kind!r}.")
    return open_judge(spec, base_url=base_url, kind=kind)  # type: ignore[arg-type]


def _items(path: Path, limit: int | None) -> list[Item]:
    from itertools import islice

    from compeer.cer.item import read_items
    from compeer.errors import UserError

    items = list(islice(read_items(path), limit))
    if not items:
        raise UserError(f"{path} holds no items.")
    return items


def _judges(words: Sequence[str]) -> dict[str, str]:
    """Judges by name: NAME=SPEC, or a spec that is named after its last part."""
    from compeer.errors import UserError

    found: dict[str, str] = {}
    for word in words:
        name, equals, spec = word.partition("=")
        if not equals or ":" in name or "/" in name:
            name, spec = "+".join(_last(part) for part in word.split(",")), word
        if name in found:
            raise UserError(f"Two judges are called {name}; name them: --model NAME=SPEC.")
        found[name] = spec
    return found


def _last(spec: str) -> str:
    """`hf:runs/judge` is called judge, `openai:gpt-4o` gpt-4o."""
    return spec.partition(":")[2].rstrip("/").rpartition("/")[2] or spec


def _named(paths: Sequence[Path]) -> dict[str, Path]:
    """Files by the beginning of their names; by the whole path where two begin alike."""
    stems = [path.name.partition(".")[0] or path.name for path in paths]
    return {str(path) if stems.count(stem) > 1 else stem: path for path, stem in zip(paths, stems, strict=True)}


def _tell(result: Any, text: str, as_json: bool) -> None:
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(result)).decode() if as_json else text)
