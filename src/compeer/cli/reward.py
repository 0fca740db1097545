"""compeer reward: train the judge, score with it, serve it, measure it.

compeer reward eval test.jsonl --model UnifiReward=hf:runs/unified --model hf:runs/prm,hf:runs/orm --probe train.jsonl
compeer reward consistency moments.jsonl --policy hf:runs/policy --judge openai:gpt-4o --model … --model … --out study
compeer reward timing test.jsonl --model hf:runs/prm,hf:runs/orm --model hf:runs/unified
compeer reward attack test.jsonl --model hf:runs/unified --threshold 0.25
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from compeer.cli.options import CommandGroup, TrainingOptions, print_result
from compeer.errors import UserError

if TYPE_CHECKING:
    from compeer.cer.item import Item
    from compeer.reward.evaluation.report import EvaluationReport
    from compeer.reward.judge import Judge

app = CommandGroup("reward")

JudgeKind = Literal["unified", "prm", "orm"] | None
Orders = Literal["one", "both", "candidate_first", "reference_first"]


@dataclass
class JudgeOptions:
    """How a judge is opened."""

    kind: JudgeKind = None
    base_url: str | None = None

    def open(self, spec: str, *, batch: int | None = None, explain: bool = False) -> Judge:
        """The judge that a spec names; options that it cannot have are refused here."""
        from compeer.reward.spec import open_judge

        if explain and spec.startswith(("http://", "https://")):
            raise UserError("A judge behind a service explains itself only if the service was started with --explain.")
        return open_judge(spec, kind=self.kind, base_url=self.base_url, batch=batch, explain=explain)


@dataclass
class StudyOptions(JudgeOptions):
    """What the studies of judges share."""

    out: Path | None = None
    orders: bool = False
    limit: int | None = None
    as_json: bool = False

    @property
    def shown(self) -> Literal["one", "both"]:
        return "both" if self.orders else "one"


@app.add("train")
def train(config: Path, options: TrainingOptions) -> None:
    """Train a judge. Run the command again to resume.

    With several GPUs: accelerate launch -m compeer.cli reward train CONFIG
    """
    from compeer.config import load
    from compeer.reward.train import JudgeTraining
    from compeer.reward.train import train as run_training
    from compeer.training.run import is_main

    settings, text = load(config, JudgeTraining, options.overrides), config.read_text(encoding="utf-8")
    trained = run_training(settings, text, force=options.force, fresh=options.fresh)
    if is_main():
        said = f"The judge is in {trained.model}" + (" (finished before)." if trained.already else ".")
        results = (f"  {name}: {value}" for name, value in trained.results.items())
        print_result(trained, options.as_json, [said, *results])


@app.add("score")
def score(
    source: Path,
    out: Path,
    model: str,
    judge: JudgeOptions,
    orders: Orders = "one",
    batch: int = 16,
    limit: int | None = None,
    budget: float | None = None,
    explain: bool = False,
    fresh: bool = False,
    as_json: bool = False,
) -> None:
    """Score items with a judge. One row per item: verdicts, probabilities, parts of the reward, total."""
    from compeer.reward.score_file import score as run_score

    summary = run_score(
        source,
        out,
        judge.open(model, batch=batch, explain=explain),
        orders=orders,
        window=max(64, 4 * batch),
        limit=limit,
        fresh=fresh,
        budget=budget,
        kind=judge.kind,
        settings={"explain": True} if explain else {},
    )
    print_result(summary, as_json, summary.lines())


@app.add("serve")
def serve(
    model: str,
    judge: JudgeOptions,
    host: str = "127.0.0.1",
    port: int = 8020,
    api_key: str | None = None,
    orders: Orders = "one",
    batch: int = 32,
    patience: float = 5.0,
    queue: int = 4096,
    timeout: float = 120.0,
    most_cases: int = 1024,
    most_mib: int = 32,
    pictures: Path | None = None,
    explain: bool = False,
    grace: float = 30.0,
) -> None:
    """Serve a judge over HTTP, with batching, health and metrics. The protocol is in docs/judge.md."""
    import asyncio

    from compeer.reward.service import ServiceSettings
    from compeer.reward.service import serve as run_service

    settings = ServiceSettings(
        host=host,
        port=port,
        api_key=api_key,
        orders=orders,
        batch=batch,
        patience=patience / 1000,
        room=queue,
        timeout=timeout,
        most_cases=most_cases,
        most_bytes=most_mib << 20,
        pictures=pictures,
        grace=grace,
    )
    asyncio.run(run_service(judge.open(model, batch=batch, explain=explain), settings))


@app.add("eval")
def evaluate(
    study: StudyOptions,
    sources: list[Path] | None = None,
    model: list[str] | None = None,
    probe: list[Path] | None = None,
    earlier: Path | None = None,
    seed: int = 0,
    rounds: int = 1000,
) -> None:
    """Evaluate judges on labelled items, side by side, with the columns of Table 1."""
    import tempfile

    from compeer.reward.evaluation.baselines import add_probe
    from compeer.reward.evaluation.folder import EvaluationFolder, ask_judge
    from compeer.reward.evaluation.report import markdown, write_report

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
                folder.add_labelled_set(name, _items(path, study.limit))
            for name, spec in _judges(model or []).items():
                ask_judge(study.open(spec), folder, name, orders=study.shown)
            for name, path in _by_name(probe or []).items():
                add_probe(folder, name, _items(path, None))
        report = write_report(folder, where, rounds=rounds, seed=seed)
    print_result(report, study.as_json, markdown(report, brief=kept))
    if kept:
        _write_page(report, where)
    if kept and not study.as_json:
        typer.echo(f"Full report: {where / 'report.md'}, report.html, report.json")


@app.add("consistency")
def consistency(
    source: Path,
    out: Path,
    judge: str,
    options: JudgeOptions,
    model: list[str] | None = None,
    policy: str | None = None,
    per_item: int = 1,
    judge_url: str | None = None,
    policy_url: str | None = None,
    direct: bool = True,
    concurrency: int = 64,
    limit: int | None = None,
    as_json: bool = False,
) -> None:
    """Count how often verdicts on reasoning and reply contradict each other (Figure 5a)."""
    from compeer.models.spec import default_prompt
    from compeer.pipeline.work import ModelSpec
    from compeer.reward.consistency import collect, markdown, study

    if not model:
        raise UserError("Name the reward models: --model PRM,ORM --model UNIFIED.")
    samples: Sequence[Item] = _items(source, limit)
    if policy:
        writer = ModelSpec(policy, policy_url or options.base_url, concurrency)
        brief = {"length": "brief"} if default_prompt(policy) == "brief" else {}
        samples = collect(samples, writer, out, per_item=per_item, options=brief)
    judges = {name: options.open(spec) for name, spec in _judges(model).items()}
    assessor = ModelSpec(judge, judge_url or options.base_url, concurrency)
    report = study(samples, judges, assessor, out, policy=policy or "", ask_verdicts=direct)
    print_result(report, as_json, markdown(report))


@app.add("timing")
def timing(source: Path, study: StudyOptions, model: list[str] | None = None, batch: int = 32, rounds: int = 3) -> None:
    """Compare the speed of judges on the same items, relative to the first one (Figure 5b)."""
    from compeer.reward.case import case_of
    from compeer.reward.timing import markdown, time_study, write_timing

    if not model:
        raise UserError("Name the judges to time: --model PRM,ORM --model UNIFIED.")
    cases = [case_of(item) for item in _items(source, study.limit)]
    judges = {name: study.open(spec) for name, spec in _judges(model).items()}
    timed = time_study(judges, cases, batch=batch, rounds=rounds, orders=study.shown)
    if study.out is not None:
        write_timing(timed, study.out)
    print_result(timed, study.as_json, markdown(timed))


@app.add("attack")
def attack(source: Path, model: str, study: StudyOptions, threshold: float = 0.25) -> None:
    """Attack a judge with outputs that deserve no reward. The exit status is 1 if an attack succeeds."""
    from compeer.reward.attack import attack as run_attack
    from compeer.reward.attack import markdown, measure_attacks, write_attacks

    ((name, spec),) = _judges([model]).items()
    items = _items(source, study.limit)
    attacked = run_attack(study.open(spec), items, study.out, orders=study.shown)
    report = measure_attacks(attacked, name, threshold=threshold)
    if study.out is not None:
        write_attacks(report, study.out)
    print_result(report, study.as_json, markdown(report))
    if report.broken:
        raise typer.Exit(1)


def _items(path: Path, limit: int | None) -> list[Item]:
    from itertools import islice

    from compeer.cer.item import read_items

    items = list(islice(read_items(path), limit))
    if not items:
        raise UserError(f"{path} holds no items.")
    return items


def _judges(words: Sequence[str]) -> dict[str, str]:
    """Judges by name: NAME=SPEC, or a spec named after its last part (`hf:runs/judge` is called judge)."""

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


def _write_page(report: EvaluationReport, folder: Path) -> None:
    """report.html of a study, as `compeer eval report` writes it: its figures with their numbers to download."""
    try:
        from compeer.evals.report.gather import ReportRuns
        from compeer.evals.report.page import page
    except ModuleNotFoundError as missing:
        if missing.name not in ("jinja2", "markupsafe"):
            raise
        needed = 'report.html needs jinja2: pip install "compeer-esc[data]".'
        raise UserError(f"{needed} report.md and report.json are in {folder}.") from None
    shown = ReportRuns((), judging=((folder.resolve().name, report),))
    (folder / "report.html").write_text(page(shown, "Evaluation of judges"), encoding="utf-8")


def _by_name(paths: Sequence[Path]) -> dict[str, Path]:
    """Files by the beginning of their names; by the whole path where two begin alike."""
    stems = [path.name.partition(".")[0] or path.name for path in paths]
    return {str(path) if stems.count(stem) > 1 else stem: path for path, stem in zip(paths, stems, strict=True)}
