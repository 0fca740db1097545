"""Before against after: the same held-out moments, answered by both models and judged by one judge.

`before` is the model as it comes along, `after` the result of GRPO. Both write without a grammar (`compeer cer reason`
with one attempt), so that completeness means something. The judge is the one that comes along, not the one that the
policy was trained on; on another base there is only the latter. Control is measured on `after`: pins are enforced by
the grammar, whatever the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.cer.item import Item
from compeer.cer.reason import STAGE as REASON
from compeer.cer.runner import run_stage
from compeer.cer.stage import Reject, Tools
from compeer.cer.work import ModelSpec
from compeer.corpora.importing import rejects_path
from compeer.demo.folder import Folder
from compeer.demo.stages import Made
from compeer.dialogue import read_rows, write_rows
from compeer.errors import UserError
from compeer.evals.interval import Figure, mean_figure
from compeer.evals.language.measure import cases_hash
from compeer.evals.result import Result, Said, Transcript, load_transcripts, save_result
from compeer.policy.embedding import Embedder
from compeer.reward.judge import PARTS
from compeer.reward.service.wire import Scored
from compeer.typed import from_plain

NAMES = ("before", "after")


def spec_of(folder: Folder, name: str) -> str:
    """A model as the commands name it."""
    if folder.base == "embedded":
        return "embedded" if name == "before" else f"embedded+{folder.path('policy', 'model')}"
    return f"hf:{folder.base}" + ("" if name == "before" else f"+{folder.path('policy', 'model')}")


def make(folder: Folder) -> Made:
    """All figures; what they came to, in a sentence."""
    answers = {name: answered(folder, name) for name in NAMES}
    figures = {name: [*result.figures] for name, result in judged(folder, answers).items()}
    embedder = Embedder()
    for name in NAMES:
        figures[name] += spoken(folder, name, answers[name], embedder)
    found = {name: {figure.name: figure.value for figure in own} for name, own in figures.items()}
    control = controlled(folder)

    def both(figure: str, form: str) -> str:
        before, after = (found[name].get(figure) for name in NAMES)
        shown = [form.format(value) if value is not None else "none" for value in (before, after)]
        return f"{shown[0]} to {shown[1]}"

    kept = control.figure("adherence")
    told = (
        f"reward {both('reward', '{:.2f}')}, complete {both('complete', '{:.0%}')}, "
        f"distinct-2 {both('en/distinct-2', '{:.3f}')} on {folder.sizes.moments} moments"
    )
    if kept is not None:
        told += f"; {kept.value:.0%} of {kept.n} pins kept"
    return Made(told, {"before": found["before"], "after": found["after"]})


def answered(folder: Folder, name: str) -> list[Item]:
    """What a model writes at the moments, the incomplete outputs too, in the order of the moments."""
    out = folder.path("answers", f"{name}.jsonl")
    options = {
        "grammar": False,
        "attempts": 1,
        "length": "brief",
        "max_tokens": folder.sizes.completion + 64,
        "temperature": 0.7,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    run_stage(
        REASON,
        folder.rows("moments"),
        out,
        Tools(seed=folder.sizes.seed, options=options),
        model_specs={"generator": ModelSpec(spec_of(folder, name), concurrency=4)},
        concurrency=4,
        cache=folder.path("answers", f"{name}.sqlite"),
        params=options,
    )
    written = {item.id: item for item in read_rows(out, Item)}
    for reject in read_rows(_rejects(out), Reject):
        item = from_plain(reject.row, Item)
        if reject.reason == "incomplete":
            written[item.id] = item
    order = [item.id for item in read_rows(folder.rows("moments"), Item)]
    items = [written[one] for one in order if one in written]
    if not items:
        raise UserError(f"The model {name} gave no answer at all; {_rejects(out)} says why.")
    write_rows(_all(folder, name), items)
    return items


def judged(folder: Folder, answers: Mapping[str, Sequence[Item]]) -> dict[str, Result]:
    """The rewards of all answers under one judge, part by part; those to one moment are judged beside each other."""
    from compeer.reward.scores.score import score
    from compeer.reward.spec import open_judge

    by_moment: dict[str, list[Item]] = {}
    for name, items in answers.items():
        for item in items:
            by_moment.setdefault(item.id, []).append(msgspec.structs.replace(item, id=f"{item.id}@{name}"))
    source, out = folder.path("answers", "both.jsonl"), folder.path("answers", "scores.jsonl")
    write_rows(source, (item for beside in by_moment.values() for item in beside))
    spec = "hf:embedded" if "judge" in folder.settings.adapters else f"hf:{folder.path('judge', 'model')}"
    summary = score(source, out, open_judge(spec, batch=8, device="cpu"), orders="both", window=4)
    rows = {row.id: row for row in read_rows(out, Scored)}
    results = {}
    for name, items in answers.items():
        known = [item for item in items if rows[f"{item.id}@{name}"].total is not None]
        scores = [_scores(rows[f"{item.id}@{name}"]) for item in known]
        results[name] = Result(
            "reward",
            name,
            {"judge": summary.judge, "cases": cases_hash(item.id for item in known)},
            tuple(mean_figure(part, [one[part] for one in scores]) for part in ("reward", *map(_named, PARTS))),
            {"seed": folder.sizes.seed, "judge identity": dict(summary.identity), "answers": len(known)},
            (_honest(folder),),
        )
        save_result(folder.path("results", f"reward-{name}"), results[name], map(_transcript, known, scores))
    return results


def spoken(folder: Folder, name: str, items: Sequence[Item], embedder: Embedder) -> tuple[Figure, ...]:
    """How varied and how long the replies are; nothing where there are none."""
    from compeer.evals.language.measure import measure
    from compeer.evals.language.outputs import read_outputs

    if not any(item.candidate and item.candidate.response.strip() for item in items):
        return ()
    measured = measure(read_outputs(_all(folder, name)), name, embedder, embedder=embedder.name)
    save_result(folder.path("results", f"language-{name}"), measured.result, measured.transcripts)
    return measured.result.figures


def controlled(folder: Folder) -> Result:
    """The stages and some strategies pinned at a moment: are they kept?"""
    import sys

    from compeer.evals.control.run import Settings, run_control

    settings = Settings(
        model=spec_of(folder, "after"),
        turns=1,
        emotions=0,
        limit=folder.sizes.pinned,
        language="en",
        length="brief",
        concurrency=4,
        max_tokens=4 * folder.sizes.completion,  # the grammar ends an output; a cut one would count against it
        seed=folder.sizes.seed,
    )
    out = folder.path("results", "control-after")
    result = run_control(settings, out, lambda line: print(f"control: {line}", file=sys.stderr, flush=True))
    named = msgspec.structs.replace(result, model="after")
    save_result(out, named, list(load_transcripts(out)))
    return named


def _all(folder: Folder, name: str) -> Path:
    return folder.path("answers", f"{name}.all.jsonl")


def _rejects(out: Path) -> Path:
    found = rejects_path(out)
    assert found is not None
    return found


def _scores(row: Scored) -> dict[str, float]:
    parts = {_named(part): float(value > 0) for part, value in (row.parts or {}).items()}
    return {"reward": float(row.total or 0), **parts}


def _named(part: str) -> str:
    return "complete" if part == "format" else part


def _transcript(item: Item, scores: dict[str, Any]) -> Transcript:
    assert item.candidate is not None
    thought, _, _ = (item.candidate.raw or "").rpartition("</think>")
    said = [Said(turn.speaker, turn.text) for turn in item.history]
    said.append(Said("supporter", item.candidate.response, f"{thought}</think>" if thought else None))
    return Transcript(item.id, item.language, tuple(said), scores, about={"reference": item.reference})


def _honest(folder: Folder) -> str:
    sizes = folder.sizes
    steps = sizes.sft_items // sizes.sft_batch
    return (
        f"This is the demo: {steps} steps of SFT, {sizes.grpo_steps} of GRPO, {sizes.moments} moments. It shows that "
        "every part runs on this machine. It does not show that training helps, and a difference between before and "
        "after is chance. docs/results.md has runs of a size that means something."
    )
