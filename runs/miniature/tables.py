"""Results into tables: notes of finished pieces -> results/*.json -> docs/results.md and rounds.md.

A result file is small, says what kind of table it is and how it was made, and is kept in the repository. A table of
docs/results.md stands between markers and is made of the file of that name alone:

    <!-- miniature: table1 -->
    …
    <!-- end -->

So nobody types figures, and a test makes the tables again. A marker without a file says that it was not measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.reward.evaluation.report import COLUMNS, grid, percent
from compeer.statistics import Figure
from runs.miniature import data
from runs.miniature.measuring import over_seeds, samples_path, strategies
from runs.miniature.pieces import Work, read_note, say
from runs.sweep import Point, table

Triple = Sequence[float | None]
Made = dict[str, Any]
MARKED = re.compile(r"(<!-- miniature: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
NOTHING = "Not measured yet."
ROUNDS = Path(__file__).with_name("rounds.md")  # every table; docs/results.md has those that matter now
_HEAD = ("model", "complete %", "reward, evaluation judge", "above SFT", "distinct-2", "self-similarity", "words",
         "strategies")  # fmt: skip
_JUDGED = _HEAD[2:4]


def make(work: Work) -> dict[str, Any]:
    """Write the result files of what is finished, and the tables from all result files."""
    found: dict[str, Made] = {}
    for name, build in _RESULTS.items():
        try:
            found[name] = build(work)
        except UserError as error:  # some of its pieces are still to come
            say(f"{name}: left out. {error}")
    work.results.mkdir(parents=True, exist_ok=True)
    for name, content in found.items():
        (work.results / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
    if not work.docs.is_file():  # the tiny size has a page of its own
        marked = "\n\n".join(f"<!-- miniature: {name} -->\n<!-- end -->" for name in _RESULTS)
        work.docs.write_text(f"# Results\n\n{marked}\n", encoding="utf-8")
    for page in (work.docs, ROUNDS) if not work.tiny else (work.docs,):
        page.write_text(filled(page.read_text(encoding="utf-8"), work.results), encoding="utf-8")
    return {"tables": sorted(found)}


def filled(text: str, results: Path) -> str:
    """A page with every marked table made from its result file."""

    def one(found: re.Match[str]) -> str:
        path = results / f"{found[2]}.json"
        lines = rendered(msgspec.json.decode(path.read_bytes())) if path.is_file() else [NOTHING]
        return found[1] + "\n".join(lines) + "\n" + found[3]

    return MARKED.sub(one, text)


def rendered(content: Mapping[str, Any]) -> list[str]:
    """The table of a result file, and a line on how it was made."""
    made = content["made"]
    told = [f"Seed {made['seed']}" if "seed" in made else "", made.get("machine", ""), made.get("revision", "")]
    return [*_KINDS[content["kind"]](content), "", "*" + "; ".join(filter(None, told)) + ".*"]


def _made(work: Work, piece: str) -> Made:
    note = work.note(piece)
    return {"piece": piece, "seed": note.seed, "base": note.base if note.base.startswith("embedded") else "another",
            "revision": note.revision, "machine": note.machine, "finished": note.finished, "seconds": note.seconds,
            "data": note.data, "versions": note.versions}  # fmt: skip


def _table1(work: Work) -> Made:
    sections = work.result("table1/report")["sections"]
    return {"kind": "judges", "made": _made(work, "table1/report"), "sections": sections}


def _elsewhere(work: Work) -> Made:
    sections = work.result("studies/elsewhere")["sections"]
    return {"kind": "judges", "made": _made(work, "studies/elsewhere"), "sections": sections}


def _policies(work: Work) -> Made:
    scores = work.result("score/all")
    rows = []
    for name, told in scores["evaluation"].items():
        if name == "variants":
            continue
        sampled = work.result(f"sample/{name}")
        other = scores["unified"][name]["reward"]
        used = sampled.get("strategies") or strategies(data.read(samples_path(work, name)))
        rows.append(_beside(name, sampled | told | {"strategies": used}) | {"training": other})
    pooled = {judge: scores[judge]["variants"] for judge in ("evaluation", "unified")}
    return {"kind": "policies", "made": _made(work, "score/all"), "rows": rows, "pooled": pooled}


def _candidates(work: Work) -> Made:
    """All models from which the supporter was chosen, on the moments of the choice."""
    told = work.result("supporter/choose")
    rows = [_beside(name, row) | {"qualifies": name in told["qualify"]} for name, row in told["candidates"].items()]
    shown = {"moments": told["candidates"]["sft"]["moments"], "rows": rows, "taken": told["supporter"]}
    return {"kind": "candidates", "made": _made(work, "supporter/choose"), **shown}


def _supporter(work: Work) -> Made:
    """The chosen supporter beside the SFT model, on the moments that nothing was chosen on."""
    rows = work.result("supporter/confirm")["rows"]
    sft = rows["sft"]
    shown = {"moments": sft["moments"], "draws": sft["draws"], "rows": [_beside(*one) for one in rows.items()]}
    return {"kind": "supporter", "made": _made(work, "supporter/confirm"), **shown}


def _home(work: Work) -> Made:
    """Both where a person meets them, in llama.cpp."""
    rows = work.result("supporter/home")["rows"]
    shown = {"moments": rows["sft"]["moments"], "rows": [_varied(*one) for one in rows.items()]}
    return {"kind": "home", "made": _made(work, "supporter/home"), **shown}


def _beside(name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    return _varied(name, row) | {"reward": row["reward"], "above": row["above sft"]}


def _varied(name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("complete", "distinct-2", "similarity-across", "length", "strategies")
    return {"name": name} | {key: row.get(key) for key in kept}


def _seeds(work: Work) -> Made:
    """Differences of variants over seeds, each seed with itself."""
    names = {"URP less UR": ("urp", "ur"), "URP sign-aware less UR": ("urp-sign", "ur"),
             "URP sign-aware less URP": ("urp-sign", "urp"), "UR less POR": ("ur", "por")}  # fmt: skip
    rows, seeds = [], work.settings.seeds
    for called, (one, other) in names.items():
        row: dict[str, Any] = {"name": called}
        for figure in ("distinct-2", "similarity-across"):
            pairs = [(_sampled(work, one, seed, figure), _sampled(work, other, seed, figure)) for seed in seeds]
            known = [mine - its for mine, its in pairs if mine is not None and its is not None]
            row[figure] = over_seeds(known) if known else [None, None, None]
            row["seeds"] = len(known)
        row["reward"] = _rewards(work, one, other)
        rows.append(row)
    return {"kind": "seeds", "made": _made(work, "sample/sft"), "rows": rows}


def _rewards(work: Work, one: str, other: str) -> list[float | None]:
    """The difference in reward under the evaluation judge, where both variants were judged."""
    note = read_note(work, "score/all")
    scores = note.results["evaluation"] if note else {}
    pairs = [(scores.get(f"{one}-{seed}"), scores.get(f"{other}-{seed}")) for seed in work.settings.seeds]
    known = [mine["reward"][0] - its["reward"][0] for mine, its in pairs if mine and its]
    return over_seeds(known) if known else [None, None, None]


def _sampled(work: Work, variant: str, seed: int, figure: str) -> float | None:
    """A figure of a run's samples, where it has been sampled."""
    note = read_note(work, f"sample/{variant}-{seed}")
    value = note.results.get(figure) if note else None
    return float(value[0]) if value else None


def _curves(work: Work) -> Made:
    names = [f"{variant}-{seed}" for variant in work.settings.variants for seed in work.settings.seeds]
    notes = {name: note for name in names if (note := read_note(work, f"grpo/{name}"))}
    if not notes:
        raise UserError("No run of GRPO has ended yet.")
    curves = {name: note.results["curve"] for name, note in notes.items()}
    return {"kind": "curves", "made": _made(work, f"grpo/{next(iter(notes))}"), "runs": curves}


def _samples(work: Work) -> Made:
    """Outputs as they came, of SFT and of every variant's first seed: nothing is picked."""
    return {"kind": "samples", "made": _made(work, "supporter/outputs"), **work.result("supporter/outputs")}


def _timing(work: Work) -> Made:
    return {"kind": "timing", "made": _made(work, "studies/timing"), **work.result("studies/timing")}


def _consistency(work: Work) -> Made:
    return {"kind": "consistency", "made": _made(work, "studies/consistency"), **work.result("studies/consistency")}


def _tau(work: Work) -> Made:
    return {"kind": "tau", "made": _made(work, "studies/tau"), **work.result("studies/tau")}


def _judges(content: Mapping[str, Any]) -> list[str]:
    head = ("judge", "history F1", "recall of False", "emotion F1", "recall", "strategy F1", "recall", "reply F1",
            "accuracy")  # fmt: skip
    areas = ("judge", "AUC history", "AUC emotion", "AUC strategy", "AUC reply", "verdicts that change with the order")
    lines: list[str] = []
    for section in content["sections"]:
        rows, below = [], []
        for row in section["rows"]:
            figures = {name: _figure(value) for name, value in row["figures"].items()}
            rows.append([row["name"], *(percent(figures.get(f"{q}/{name}")) for q, name in COLUMNS)])
            if row["role"] != "baseline":
                auc = [figures.get(f"{q}/auc", Figure()) for q in ("history", "emotion", "strategy", "preference")]
                swayed = "-" if row["swayed"] is None else f"{percent(row['swayed'])} %"
                below.append([row["name"], *(one.text(2) for one in auc), swayed])
        told = f"{section['set']} ({section['label_source']} labels): {section['items']:,} items of "
        lines += ["", told + f"{section['dialogues']:,} dialogues. Percent, with 95 % intervals over dialogues.", ""]
        lines += grid(head, rows)
        if any(cell != "-" for row in below for cell in row[1:]):
            lines += ["", *grid(areas, below)]
        differences = [
            [f"{one['judge']} less {one['other']}", *(percent(_figure(value), sign=True) for value in one["figures"])]
            for one in section.get("differences", ())
        ]
        if differences:
            lines += ["", *grid(("points", *head[1:]), differences)]
    return lines[1:]


def _of_policies(content: Mapping[str, Any]) -> list[str]:
    head = ("model", "complete %", "reward, evaluation judge", "above SFT", "reward, training judge", "distinct-2",
            "self-similarity", "words", "strategies")  # fmt: skip
    rows = [
        [row["name"], percent(_figure(row["complete"])), _figure(row["reward"]).text(2),
         _figure(row["above"]).text(2, sign=True), _figure(row["training"]).text(2),
         _thousandths(row["distinct-2"]), _thousandths(row["similarity-across"]),
         _figure(row["length"]).text(2), f"{row['strategies']:.1f}"]
        for row in content["rows"]
    ]  # fmt: skip
    pooled = [
        [variant, *(_figure(content["pooled"][judge][variant]).text(2, sign=True) for judge in content["pooled"])]
        for variant in content["pooled"]["evaluation"]
    ]
    above = ("variant, mean over seeds", "above SFT, evaluation judge", "above SFT, training judge")
    return [*grid(head, rows), "", *grid(above, pooled)]


def _of_candidates(content: Mapping[str, Any]) -> list[str]:
    rows = [
        [*_row(row), "taken" if row["name"] == content["taken"] else "yes" if row["qualifies"] else ""]
        for row in content["rows"]
    ]
    return [f"{content['moments']:,} moments of ESConv valid.", "", *grid((*_HEAD, "qualifies"), rows)]


def _of_supporter(content: Mapping[str, Any]) -> list[str]:
    told = f"{content['moments']} moments of ESConv valid that nothing was chosen on"
    told += f", {content['draws']} answers to each." if content.get("draws", 1) > 1 else "."
    return [told, "", *grid(_HEAD, [_row(row) for row in content["rows"]])]


def _of_home(content: Mapping[str, Any]) -> list[str]:
    without = [number for number, name in enumerate(_HEAD) if name not in _JUDGED]
    rows = [[_row(row | {"reward": None, "above": None})[number] for number in without] for row in content["rows"]]
    told = f"{content['moments']} moments of ESConv valid, in `embedded` (llama.cpp), one answer to each."
    return [told, "", *grid([_HEAD[number] for number in without], rows)]


def _row(row: Mapping[str, Any]) -> list[str]:
    return [row["name"], percent(_figure(row["complete"])), _figure(row["reward"]).text(2),
            _figure(row["above"]).text(2, sign=True), _thousandths(row["distinct-2"]),
            _thousandths(row["similarity-across"]), _figure(row["length"]).text(2),
            f"{row['strategies']:.1f}" if row.get("strategies") else "-"]  # fmt: skip


def _of_seeds(content: Mapping[str, Any]) -> list[str]:
    rows = [
        [
            row["name"],
            str(row["seeds"]),
            *(_thousandths(row[name], "+") for name in ("distinct-2", "similarity-across")),
            _figure(row.get("reward")).text(2, sign=True),
        ]
        for row in content["rows"]
        if row["seeds"]
    ]
    return grid(("difference", "seeds", "distinct-2", "self-similarity", "reward, evaluation judge"), rows)


def _of_curves(content: Mapping[str, Any]) -> list[str]:
    names = {"reward/total": "reward before equation 5", "diversity/distinct_2": "distinct-2",
             "diversity/self_similarity": "self-similarity", "format/incomplete": "incomplete"}  # fmt: skip

    def change(curve: Sequence[Mapping[str, float]], name: str) -> str:
        values = [line[name] for line in curve if name in line]
        share = max(1, len(values) // 5)
        first, last = (sum(part) / len(part) if part else float("nan") for part in (values[:share], values[-share:]))
        return f"{first:.3f} to {last:.3f}"

    rows = [[run, *(change(curve, name) for name in names)] for run, curve in content["runs"].items()]
    return grid(("first to last fifth of training", *names.values()), rows)


def _of_timing(content: Mapping[str, Any]) -> list[str]:
    timing = content["timing"]
    rows = []
    for pace in timing["paces"]:
        each, ratio = (msgspec.convert(pace[name], Figure) for name in ("seconds_a_case", "ratio"))
        known = [None if one is None else 1000 * one for one in (each.value, each.low, each.high)]
        rows.append([pace["name"], Figure("", *known).text(2), ratio.text(2), f"{pace['tokens_a_case']:,.0f}"])
    told = f"{timing['cases']:,} cases in batches of about {timing['batch']}, {timing['rounds']} times over."
    first = timing["paces"][0]["name"]
    return [told, "", *grid(("judge", "ms a case", f"time over {first}", "tokens a case"), rows)]


def _of_consistency(content: Mapping[str, Any]) -> list[str]:
    study = content["consistency"]
    rows = [
        [one["name"], percent(msgspec.convert(one["ratio"], Figure)), *(percent(one["kinds"][k]) for k in one["kinds"])]
        for one in study["results"]
    ]
    kinds = list(study["results"][0]["kinds"])
    told = f"{study['samples']:,} samples of {study['dialogues']:,} dialogues, written by {study['policy']}; "
    told += f"assessed by {study['judge_model']}, whose accuracy on people's own utterances is "
    told += f"{percent(content['classifier']['accuracy'])} %."
    return [told, "", *grid(("reward model", "inconsistent %", *(f"{kind} %" for kind in kinds)), rows)]


def _of_tau(content: Mapping[str, Any]) -> list[str]:
    return table(msgspec.convert(content["points"], list[Point])).split("\n")


def _of_trial(content: Mapping[str, Any]) -> list[str]:
    head = ("model", "complete %", "cut off %", "distinct-2", "words", "reward, evaluation judge", "above SFT",
            "reward, training judge", "above SFT")  # fmt: skip
    rows = [
        [row["name"], percent(row["complete"]), percent(row["cut"]), f"{row['distinct']:.3f}", f"{row['words']:.1f}",
         f"{row['evaluation']:.2f}", row["above"].replace("±", " ± "), f"{row['training']:.2f}",
         row["above_training"].replace("±", " ± ")]
        for row in content["rows"]
    ]  # fmt: skip
    return [f"{content['moments']} moments of ESConv valid, temperature 0.7, without a grammar.", "", *grid(head, rows)]


def _of_samples(content: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for number, moment in enumerate(content["moments"]):
        told = [f"> **{'Supporter' if place % 2 else 'Seeker'}:** {words}" for place, words in enumerate(moment)]
        lines += ["\n>\n".join(told), ""]
        for name, outputs in content["outputs"].items():
            # indented, so that tags and markers of an output stay text
            lines += [f"{name}:", "", *("    " + line for line in outputs[number].splitlines()), ""]
    return [line.replace("<!--", "<! --") for line in lines[:-1]]


def _figure(value: Triple | None) -> Figure:
    return Figure("", *value) if value else Figure()


def _thousandths(value: Triple | None, sign: str = "") -> str:
    if not value or value[0] is None:
        return "-"
    form = "{:" + sign + ".3f}"
    if value[1] is None or value[2] is None:
        return form.format(value[0])
    return f"{form} [{form}, {form}]".format(*value)


_KINDS: dict[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "judges": _judges,
    "policies": _of_policies,
    "candidates": _of_candidates,
    "supporter": _of_supporter,
    "home": _of_home,
    "seeds": _of_seeds,
    "curves": _of_curves,
    "timing": _of_timing,
    "consistency": _of_consistency,
    "tau": _of_tau,
    "samples": _of_samples,
    "trial": _of_trial,
}
_RESULTS: dict[str, Callable[[Work], Made]] = {
    "table1": _table1,
    "policies": _policies,
    "candidates": _candidates,
    "supporter": _supporter,
    "home": _home,
    "seeds": _seeds,
    "curves": _curves,
    "timing": _timing,
    "consistency": _consistency,
    "tau": _tau,
    "elsewhere": _elsewhere,
    "samples": _samples,
}
