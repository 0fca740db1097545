"""The consistency study from beginning to end, in a folder that can be left and come back to.

    samples.jsonl          complete answers of a policy model to the moments given, by rejection sampling
    judgements/            the reward models' verdicts, kept as in an evaluation
    followed.jsonl         what the judge model says of the replies
    contradicted.jsonl     what it says of the verdicts
    consistency.md, .json, .png

Each part is a stage of the runner or a kept file: stopped at any moment, the study goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from compeer.cer.item import Item
from compeer.cer.progress import Progress
from compeer.cer.reason import STAGE as REASON
from compeer.cer.runner import run_stage
from compeer.cer.stage import Tools
from compeer.cer.work import ModelSpec
from compeer.dialogue import read_rows, write_rows
from compeer.errors import UserError
from compeer.models.request import run
from compeer.reward.evaluation.asking import Say, ask, to_stderr
from compeer.reward.evaluation.folder import Folder
from compeer.reward.judge import Judge, Judgement
from compeer.reward.studies.consistency import ConsistencyReport, complete, draw, markdown, measured, verdicts
from compeer.reward.studies.following import CONTRADICTS, FOLLOWS, ROLE, Contradicted, Following

SET = "samples"


def collect(
    items: Sequence[Item],
    policy: ModelSpec,
    out: Path,
    *,
    per_item: int = 1,
    seed: int = 0,
    options: Mapping[str, object] | None = None,
    progress: Progress | None = None,
) -> list[Item]:
    """Let a policy model answer moments with reasoning; an output that is incomplete is drawn again, then dropped."""
    moments = out / "moments.jsonl"
    write_rows(moments, _moments(items, per_item))
    tools = Tools(seed=seed, options=dict(options or {}))
    manifest = run_stage(
        REASON,
        moments,
        out / "samples.jsonl",
        tools,
        model_specs={"generator": policy},
        concurrency=policy.concurrency,
        params={"per_item": per_item},
        progress=progress,
    )
    return list(read_rows(manifest.output, Item))


def study(
    samples: Sequence[Item],
    judges: Mapping[str, Judge],
    judge_model: ModelSpec,
    out: Path,
    *,
    policy: str = "",
    ask_verdicts: bool = True,
    progress: Progress | None = None,
    say: Say = to_stderr,
) -> ConsistencyReport:
    """Have reward models judge the samples and a judge model assess them; write the report."""
    usable = [item for item in samples if item.candidate is not None and item.candidate.reasoning is not None]
    if not usable:
        raise UserError("None of the samples holds a complete reasoning; give --policy a model that writes them.")
    folder = Folder(out)
    folder.add_set(SET, usable)
    told = {name: _judged(judge, folder, name, say) for name, judge in judges.items()}
    models, many = {ROLE: judge_model}, judge_model.concurrency
    source = folder.set_path(SET)
    done = run_stage(FOLLOWS, source, out / "followed.jsonl", model_specs=models, concurrency=many, progress=progress)
    following = {row.id: row for row in read_rows(done.output, Following)}
    asked: dict[str, bool] | None = None
    if ask_verdicts:
        given = [
            (item, verdict) for item in usable for known in told.values() if complete(verdict := known.get(item.id))
        ]
        rows = [verdicts(item, verdict) for item, verdict in given if verdict is not None]
        write_rows(out / "verdicts.jsonl", {row.id: row for row in rows}.values())
        # verdicts may have been added since the last time; what was asked then comes from the cache
        done = run_stage(
            CONTRADICTS,
            out / "verdicts.jsonl",
            out / "contradicted.jsonl",
            model_specs=models,
            concurrency=many,
            progress=progress,
            fresh=True,
        )
        asked = {row.id: row.contradict for row in read_rows(done.output, Contradicted)}
    report = measured(usable, told, following, asked, judge_model=judge_model.spec, policy=policy)
    write(report, out)
    return report


def write(report: ConsistencyReport, out: Path) -> None:
    """consistency.md, consistency.json and consistency.png in a folder."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "consistency.md").write_text(markdown(report), encoding="utf-8")
    (out / "consistency.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    draw(report, out / "consistency.png")


def _judged(judge: Judge, folder: Folder, name: str, say: Say) -> dict[str, Judgement]:
    """The verdicts of one reward model. Both are asked in the same order of the pair, drawn from the sample's id."""
    if judge.kind != "unified":
        raise UserError(f"{name} judges only part of a sample ({judge.kind}); name a pair of judges as PRM,ORM.")

    async def work() -> None:
        try:
            await ask(judge, folder, name, sets=[SET], say=say)
        finally:
            await judge.close()

    run(work())
    return folder.judgements(SET, name)


def _moments(items: Sequence[Item], per_item: int) -> Iterator[Item]:
    """Each moment as often as it is to be answered, under ids of its own, without labels and candidates."""
    for item in items:
        for number in range(per_item):
            name = item.id if number == 0 else f"{item.id}~{number + 1}"
            yield msgspec.structs.replace(item, id=name, candidate=None, labels=type(item.labels)(), label_source=None)
