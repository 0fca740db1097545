"""The best supporter and the judge as adapters that can be shipped: in bfloat16 since they were trained, with cards,
under 24 MB together.

Which supporter is the best, `choosing` tells; the judge is UnifiReward. Each adapter is also converted for llama.cpp.
That file holds float32 and is twice the size, so it is kept beside (OUT/adapters/gguf) when all of it together would be
too much to ship; it can be made again from the other within a second (`compeer.models.lora_gguf`).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec

from compeer.models.lora_gguf import convert_adapter
from compeer.models.weights import locate
from compeer.training.card import CardText, card
from compeer.training.run import DataFile, Record, Run
from runs.miniature.measuring import adapter
from runs.miniature.pieces import Work

MOST = 24_000_000  # bytes
LIMITS = (
    "A model of 135 million parameters: it can show three-step reasoning, it cannot carry a conversation that matters.",
    "It is no therapist and no replacement for help in a crisis.",
    "The labels it learnt from are silver, made by rule from what ESConv's annotators noted. English only.",
    "ESConv is licensed CC BY-NC 4.0: no commercial use.",
)
OF_THE_SUPPORTER = ("It speaks of experiences of its own, as ESConv's supporters do. It has none.",)


def ship(work: Work) -> dict[str, Any]:
    told = work.result("supporter/confirm")
    chosen = told["shipped"]
    weights = _weights(work)
    kept: dict[str, int] = {}
    converted: dict[str, int] = {}
    for role, folder in (("supporter", adapter(work, chosen)), ("judge", work.run("judges", "unified", "model"))):
        target = work.path("adapters", role)
        if target.exists():
            shutil.rmtree(target)
        target.mkdir(parents=True)
        for name in ("adapter_model.safetensors", "adapter_config.json", "judge.json"):
            if (folder / name).is_file():
                shutil.copyfile(folder / name, target / name)
        record = _record(work, role, folder.parent, chosen)
        (target / "run.json").write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
        (target / "README.md").write_text(_card(work, role, record, chosen), encoding="utf-8")
        if weights is not None:
            beside = work.path("adapters", "gguf")
            beside.mkdir(parents=True, exist_ok=True)
            converted[role] = convert_adapter(target, beside / f"{role}.gguf", weights=weights).stat().st_size
        kept[role] = sum(path.stat().st_size for path in target.iterdir())
    together = sum(kept.values()) + sum(converted.values())
    if converted and together <= MOST:
        for role in converted:
            shutil.move(work.path("adapters", "gguf", f"{role}.gguf"), work.path("adapters", role, "adapter.gguf"))
    shipped = together if together <= MOST else sum(kept.values())
    return {
        "supporter": chosen,
        "chosen": told["supporter"],
        "why": told["why"],
        "holds": told["holds"],
        "bytes": kept,
        "gguf bytes": converted,
        "shipped bytes": shipped,
        "fits": shipped <= MOST,
    }


def _weights(work: Work) -> Path | None:
    """The base as llama.cpp has it: the embedded file, or what $COMPEER_WEIGHTS names."""
    if work.base == "embedded:small":
        return locate()
    given = os.environ.get("COMPEER_WEIGHTS")
    return Path(given) if given else None


def _record(work: Work, role: str, folder: Path, chosen: str) -> Record:
    """How it was made, without the paths of the machine where it was, and what came out."""
    text = (folder / "run.json").read_text(encoding="utf-8")
    there = msgspec.json.decode(text)["config"]["out"].partition("/runs/")[0]
    for place in (f"{there}/runs/", f"{there}/"):
        text = text.replace(place, "")
    record = msgspec.json.decode(text, type=Record)
    if role == "supporter":
        rows = work.result("supporter/confirm")["rows"]
        row, sft = rows[chosen], rows["sft"]
        told = f"on {row['moments']} moments of ESConv valid, {row['draws']} answers to each (mean, low, high)"
        measured = {
            f"complete without a grammar {told}": row["complete"],
            "reward under the evaluation judge": row["reward"],
            "above the SFT model": row["above sft"],
            "distinct-2 of its replies": row.get("distinct-2"),
            "strategies in use": row["strategies"],
        }
        if chosen != "sft":
            names = ("complete", "reward", "distinct-2", "strategies")
            measured["the SFT model on the same moments"] = {name: sft.get(name) for name in names}
            before = msgspec.json.decode((work.run("sft") / "run.json").read_bytes(), type=Record)
            record.data["learnt from before, by the SFT model"] = [_bare(file) for file in before.data["train"]]
    else:
        section = work.result("table1/report")["sections"][0]
        figures = next(one for one in section["rows"] if one["name"] == "UnifiReward")["figures"]
        measured = {name: value for name, value in figures.items() if name.endswith(("auc", "recall_false"))}
    record.results = record.results | measured
    return record


def _bare(file: DataFile) -> DataFile:
    """A file of the data stage without the path of a machine."""
    return DataFile(f"data/{Path(file.path).name}", file.sha256, file.rows)


def _card(work: Work, role: str, record: Record, chosen: str) -> str:
    from_sft = f"trained from the SFT model with GRPO, {chosen} of the miniature"
    what = {
        "supporter": "A peer supporter that thinks in three steps, then answers: "
        f"{'the SFT model of the miniature' if chosen == 'sft' else from_sft}.",
        "judge": "UnifiReward of the miniature: it judges three steps of reasoning and a reply against a reference.",
    }[role]
    about = CardText(
        title=f"COMPEER miniature, {role}",
        what=what + " An adapter (LoRA) for SmolLM2-135M-Instruct. Licence: CC BY-NC 4.0, because of ESConv.",
        use="    compeer chat"
        if role == "supporter"
        else "    compeer reward score items.jsonl --model embedded --out scores.jsonl",
        base=work.base,
        languages=["en"],
        licence="cc-by-nc-4.0",
        licences=["CC BY-NC 4.0 (ESConv)", "academic research use (FailedESConv)", "CC BY 4.0 (our own corpus)"],
        limits=LIMITS + (OF_THE_SUPPORTER if role == "supporter" else ()),
        tags=("emotional-support",),
    )
    return card(Run(work.path("adapters", role), record, None, None), about)
