"""compeer reward: train the judge, score with it, serve it, measure it.

compeer reward eval test.jsonl --model UnifiReward=hf:runs/unified --model hf:runs/prm,hf:runs/orm --probe train.jsonl
compeer reward consistency moments.jsonl --policy hf:runs/policy --judge openai:gpt-4o --model … --model … --out study
compeer reward timing test.jsonl --model hf:runs/prm,hf:runs/orm --model hf:runs/unified
compeer reward attack test.jsonl --model hf:runs/unified --threshold 0.25
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from compeer.cli.options import BaseUrl, Concurrency, Json, Limit, Seed, check_choice, option_groups, print_json

if TYPE_CHECKING:
    from compeer.cer.item import Item
    from compeer.reward.judge import Judge

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Source = Annotated[
    Path, typer.Argument(help="Items: JSON lines, plain or compressed, or a published folder.", show_default=False)
]
JudgeSpec = Annotated[
    str,
    typer.Option("--model", "-m", help="Judge: hf:…, embedded, openai:…, or http://… of compeer reward serve."),
]
Judges = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", help="Judge, or PRM,ORM as one; NAME=SPEC names it. May be given several times."),
]
JudgeKind = Annotated[str | None, typer.Option("--kind", help="Kind of judge: unified, prm or orm. Default: its own.")]
Orders = Annotated[
    str, typer.Option(help="Order of the two replies: one (drawn), both, candidate_first or reference_first.")
]
BothOrders = Annotated[bool, typer.Option("--orders", help="Show each pair in both orders and compare the verdicts.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder for tables, figures and kept judgements.")]
Explain = Annotated[bool, typer.Option("--explain", help="Also generate reasons, which takes longer.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start again instead of resuming.")]


@dataclass
class StudyOptions:
    """What the studies of judges share."""

    out: Out = None
    orders: BothOrders = False
    kind: JudgeKind = None
    base_url: BaseUrl = None
    limit: Limit = None
    as_json: Json = False

    @property
    def shown(self) -> Literal["one", "both"]:
        return "both" if self.orders else "one"

    def items(self, path: Path) -> list[Item]:
        return _items(path, self.limit)

    def open(self, spec: str) -> Judge:
        return _open_judge(spec, self.kind, self.base_url)


@app.command()
def train(
    config: Annotated[
        Path, typer.Argument(help="YAML file with the settings; see configs/reward for examples.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Output folder, instead of the one in the file.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override a setting of the file: NAME=VALUE, nested as in lora.r=8. Repeatable."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Resume even if settings or data differ.")] = False,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Train a judge. Run the command again to resume.

    With several GPUs: accelerate launch -m compeer.cli reward train CONFIG
    """
    from compeer.config import load
    from compeer.reward.train import JudgeTraining
    from compeer.reward.train import train as run_training
    from compeer.training.run import is_main

    given = [*(settings or []), *([f"out={json.dumps(str(out))}"] if out else [])]
    trained = run_training(
        load(config, JudgeTraining, given), config.read_text(encoding="utf-8"), force=force, fresh=fresh
    )
    if not is_main():
        return
    if as_json:
        print_json(trained)
        return
    typer.echo(f"The judge is in {trained.model}" + (" (finished before)." if trained.already else "."))
    for name, value in trained.results.items():
        typer.echo(f"  {name}: {value}")


@app.command()
def score(
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", help="Output file. Manifest and summary are written beside it.")],
    model: JudgeSpec,
    orders: Orders = "one",
    kind: JudgeKind = None,
    base_url: BaseUrl = None,
    batch: Annotated[int, typer.Option(min=1, help="Conversations per batch of a local judge.")] = 16,
    limit: Limit = None,
    budget: Annotated[
        float | None,
        typer.Option(min=0.1, help="Time limit per window of items, in seconds; items without a judgement are marked."),
    ] = None,
    explain: Explain = False,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Judge items. One row per item: verdicts, probabilities, parts of the reward, total."""
    from compeer.reward.score_file import score as run_score

    summary = run_score(
        source,
        out,
        _open_judge(model, kind, base_url, orders, batch=batch, explain=explain),
        orders=orders,  # type: ignore[arg-type]
        window=max(64, 4 * batch),
        limit=limit,
        fresh=fresh,
        budget=budget,
        kind=kind,  # type: ignore[arg-type]
        settings={"explain": True} if explain else {},
    )
    _show(summary, "\n".join(summary.lines()), as_json)


@app.command()
def serve(
    model: JudgeSpec,
    host: Annotated[str, typer.Option(help="Address to listen on. Other machines need --api-key.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one and prints it.")
    ] = 8020,
    api_key: Annotated[
        str | None,
        typer.Option(envvar="COMPEER_API_KEY", help="Bearer key that clients must send.", show_default=False),
    ] = None,
    orders: Orders = "one",
    kind: JudgeKind = None,
    base_url: BaseUrl = None,
    batch: Annotated[int, typer.Option(min=1, help="Maximum cases per batch.")] = 32,
    patience: Annotated[float, typer.Option(min=0.0, help="Maximum wait for a batch, in milliseconds.")] = 5.0,
    queue: Annotated[int, typer.Option(min=1, help="Maximum number of waiting cases; more get status 503.")] = 4096,
    timeout: Annotated[float, typer.Option(min=0.1, help="Maximum time per request, in seconds.")] = 120.0,
    most_cases: Annotated[int, typer.Option(min=1, help="Maximum cases per request.")] = 1024,
    most_mib: Annotated[int, typer.Option(min=1, help="Maximum size of a request, in MiB.")] = 32,
    pictures: Annotated[
        Path | None, typer.Option(help="Folder whose images requests may name. Default: images inside requests only.")
    ] = None,
    explain: Explain = False,
    grace: Annotated[
        float, typer.Option(min=0.0, help="Time for running requests to finish after a stop, in seconds.")
    ] = 30.0,
) -> None:
    """Serve a judge over HTTP, with batches, health and metrics. The protocol is in docs/judge.md."""
    import asyncio

    from compeer.reward.service import ServiceSettings
    from compeer.reward.service import serve as run_service

    settings = ServiceSettings(
        host=host,
        port=port,
        api_key=api_key,
        orders=orders,  # type: ignore[arg-type]
        batch=batch,
        patience=patience / 1000,
        room=queue,
        timeout=timeout,
        most_cases=most_cases,
        most_bytes=most_mib << 20,
        pictures=pictures,
        grace=grace,
    )
    asyncio.run(run_service(_open_judge(model, kind, base_url, orders, batch=batch, explain=explain), settings))


@app.command("eval")
@option_groups
def evaluate(
    study: StudyOptions,
    sources: Annotated[
        list[Path] | None,
        typer.Argument(help="Labelled items: files or published folders, one set each.", show_default=False),
    ] = None,
    model: Judges = None,
    probe: Annotated[list[Path] | None, typer.Option(help="Labelled items for the linear probe. Repeatable.")] = None,
    earlier: Annotated[
        Path | None, typer.Option("--from", help="Folder of an earlier run: rewrite its report without asking a judge.")
    ] = None,
    seed: Seed = 0,
    rounds: Annotated[int, typer.Option(min=2, help="Number of resamples for the intervals.")] = 1000,
) -> None:
    """Evaluate judges on labelled items, side by side, with the columns of Table 1."""
    import tempfile

    from compeer.errors import UserError
    from compeer.reward.evaluation import EvaluationFolder, add_probe, ask_judge, markdown, write_report

    if earlier is None and not (sources and (model or probe)):
        raise UserError("Give ITEMS and at least one --model or --probe, or --from with the folder of an earlier run.")
    if earlier is not None and (sources or model or probe):
        raise UserError("--from reports what was kept; it takes no ITEMS, --model or --probe.")
    with tempfile.TemporaryDirectory() as temporary:
        where = study.out or earlier or Path(temporary)
        kept = where != Path(temporary)
        if earlier is not None:
            folder = EvaluationFolder.existing(earlier)
        else:
            folder = EvaluationFolder(where)
            for name, path in _by_name(sources or []).items():
                folder.add_labelled_set(name, study.items(path))
            for name, spec in _judges(model or []).items():
                ask_judge(study.open(spec), folder, name, orders=study.shown)
            for name, path in _by_name(probe or []).items():
                add_probe(folder, name, _items(path, None))
        report = write_report(folder, where, rounds=rounds, seed=seed, figures=kept)
    _show(report, markdown(report, brief=kept), study.as_json)
    if kept and not study.as_json:
        typer.echo(f"Full report: {where / 'report.md'}, report.json, report.png")


@app.command()
def consistency(
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the study. Run the command again to resume.")],
    judge: Annotated[str, typer.Option(help="Chat model that assesses the verdicts: openai:…, hf:… or embedded.")],
    model: Judges = None,
    policy: Annotated[
        str | None, typer.Option(help="Model that answers with reasoning. Default: the candidates of the items.")
    ] = None,
    per_item: Annotated[int, typer.Option(min=1, help="Answers per item.")] = 1,
    kind: JudgeKind = None,
    base_url: BaseUrl = None,
    judge_url: Annotated[str | None, typer.Option(help="Address of the --judge server. Default: --base-url.")] = None,
    policy_url: Annotated[str | None, typer.Option(help="Address of the --policy server. Default: --base-url.")] = None,
    direct: Annotated[bool, typer.Option(help="Also ask directly whether the verdicts contradict each other.")] = True,
    concurrency: Concurrency = 64,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Count how often verdicts on reasoning and reply contradict each other (Figure 5a)."""
    from compeer.errors import UserError
    from compeer.models.spec import default_prompt
    from compeer.pipeline.work import ModelSpec
    from compeer.reward.consistency import collect, markdown, study

    if not model:
        raise UserError("Name the reward models: --model PRM,ORM --model UNIFIED.")
    samples: Sequence[Item] = _items(source, limit)
    if policy:
        writer = ModelSpec(policy, policy_url or base_url, concurrency)
        brief = {"length": "brief"} if default_prompt(policy) == "brief" else {}
        samples = collect(samples, writer, out, per_item=per_item, options=brief)
    judges = {name: _open_judge(spec, kind, base_url) for name, spec in _judges(model).items()}
    assessor = ModelSpec(judge, judge_url or base_url, concurrency)
    report = study(samples, judges, assessor, out, policy=policy or "", ask_verdicts=direct)
    _show(report, markdown(report), as_json)


@app.command()
@option_groups
def timing(
    source: Source,
    study: StudyOptions,
    model: Judges = None,
    batch: Annotated[int, typer.Option(min=1, help="Cases per batch.")] = 32,
    rounds: Annotated[int, typer.Option(min=1, help="Repetitions over all items.")] = 3,
) -> None:
    """Compare the speed of judges on the same items, relative to the first one (Figure 5b)."""
    from compeer.errors import UserError
    from compeer.models.request import run
    from compeer.reward.case import case_of
    from compeer.reward.timing import Timing, markdown, time_study, write_timing

    if not model:
        raise UserError("Name the judges to time: --model PRM,ORM --model UNIFIED.")
    cases = [case_of(item) for item in study.items(source)]
    judges = {name: study.open(spec) for name, spec in _judges(model).items()}

    async def work() -> Timing:
        try:
            return await time_study(judges, cases, batch=batch, rounds=rounds, orders=study.shown)
        finally:
            for judge in judges.values():
                await judge.close()

    timed = run(work())
    if study.out is not None:
        write_timing(timed, study.out)
    _show(timed, markdown(timed), study.as_json)


@app.command()
@option_groups
def attack(
    source: Source,
    model: Annotated[str, typer.Option("--model", "-m", help="Judge, or PRM,ORM as one; NAME=SPEC names it.")],
    study: StudyOptions,
    threshold: Annotated[float, typer.Option(help="Maximum rise of the mean total that an attack may cause.")] = 0.25,
) -> None:
    """Attack a judge with outputs that deserve no reward. The exit status is 1 when an attack passes the threshold."""
    from compeer.models.request import run
    from compeer.reward.attack import AttackedItem, markdown, measure_attacks, write_attacks
    from compeer.reward.attack import attack as run_attack

    ((name, spec),) = _judges([model]).items()
    judge = study.open(spec)

    async def work() -> list[AttackedItem]:
        try:
            return await run_attack(judge, study.items(source), study.out, orders=study.shown)
        finally:
            await judge.close()

    report = measure_attacks(run(work()), name, threshold=threshold)
    if study.out is not None:
        write_attacks(report, study.out)
    _show(report, markdown(report), study.as_json)
    if report.broken:
        raise typer.Exit(1)


def _open_judge(
    spec: str,
    kind: str | None,
    base_url: str | None,
    orders: str = "one",
    *,
    batch: int | None = None,
    explain: bool = False,
) -> Judge:
    """The judge that a spec names; options that it cannot have are refused here."""
    from typing import get_args

    from compeer.errors import UserError
    from compeer.reward.judge import Orders
    from compeer.reward.spec import open_judge
    from compeer.reward.verdict import Kind

    check_choice("--orders", orders, *get_args(Orders))
    check_choice("--kind", kind, *get_args(Kind))
    if explain and spec.startswith(("http://", "https://")):
        raise UserError("A judge behind a service explains itself only if the service was started with --explain.")
    return open_judge(spec, kind=kind, base_url=base_url, batch=batch, explain=explain)  # type: ignore[arg-type]


def _items(path: Path, limit: int | None) -> list[Item]:
    from itertools import islice

    from compeer.cer.item import read_items
    from compeer.errors import UserError

    items = list(islice(read_items(path), limit))
    if not items:
        raise UserError(f"{path} holds no items.")
    return items


def _judges(words: Sequence[str]) -> dict[str, str]:
    """Judges by name: NAME=SPEC, or a spec named after its last part (`hf:runs/judge` is called judge)."""
    from compeer.errors import UserError

    found: dict[str, str] = {}
    for word in words:
        name, equals, spec = word.partition("=")
        if not equals or ":" in name or "/" in name:
            parts = [part.partition(":")[2].rstrip("/").rpartition("/")[2] or part for part in word.split(",")]
            name, spec = "+".join(parts), word
        if name in found:
            raise UserError(f"Two judges are called {name}; name them: --model NAME=SPEC.")
        found[name] = spec
    return found


def _by_name(paths: Sequence[Path]) -> dict[str, Path]:
    """Files by the beginning of their names; by the whole path where two begin alike."""
    stems = [path.name.partition(".")[0] or path.name for path in paths]
    return {str(path) if stems.count(stem) > 1 else stem: path for path, stem in zip(paths, stems, strict=True)}


def _show(result: Any, text: str, as_json: bool) -> None:
    if as_json:
        print_json(result)
    else:
        typer.echo(text)
