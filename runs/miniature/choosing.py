"""Which model is shipped as the supporter, and whether it holds on moments that nothing was chosen on.

Candidates are runs of the recipes in config.yaml, and means of such runs. All of them answer the moments of `choice`.
Some qualify: their outputs are complete in 97 %, their replies are more varied than the SFT model's (distinct-2), and
they use at least half as many strategies as it does. Of these the one with the highest reward under the evaluation
judge is taken; where there is none, the SFT model. It and the SFT model then answer the moments of `confirm`, each
several times (`draws`). What qualifies there too, with a reward whose interval above the SFT model's leaves out zero,
is shipped. Otherwise the SFT model is.

"More varied" is by 0.03 where it is chosen: on 200 turns, the draw of the answers alone moves the difference of two
models by 0.027 (one standard deviation, of two draws of the SFT model), so a tie is seen as less every other time.
Where it is confirmed it is by 0.01, about three standard deviations of a mean over four draws of 683 answers.

The mean of several runs is the mean of their adapters' weights. Runs that differ in their seed drift apart in what the
reward does not care about, such as which strategy they come to prefer; their mean keeps what they have in common.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from compeer.errors import UserError
from compeer.reward.evaluation.measure import dialogues_of
from compeer.statistics import Resamples
from compeer.training.run import Record
from runs.miniature import data
from runs.miniature.measuring import above, figures, judged_alone, sample, samples_path
from runs.miniature.pieces import Work, read_note

COMPLETE = 0.97
STRATEGIES = 0.5  # of those the SFT model uses
CHOSEN, CONFIRMED = 0.03, 0.01  # of distinct-2 above the SFT model's


def mean(work: Work, name: str, of: Sequence[str]) -> dict[str, Any]:
    """The mean of runs as a candidate of its own. Its record is the first one's, with the settings that all of them
    share, and beside them what each has for itself."""
    import torch
    from safetensors.torch import load_file, save_file

    folders = [work.run(*one.split("/")) for one in of]
    weights = [load_file(folder / "model" / "adapter_model.safetensors") for folder in folders]
    made = {
        key: torch.stack([one[key].float() for one in weights]).mean(0).to(torch.bfloat16).contiguous()
        for key in weights[0]
    }
    target = work.run("candidates", name, "model")
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folders[0] / "model" / "adapter_config.json", target / "adapter_config.json")
    records = [_record(folder) for folder in folders]
    record, configs = records[0], [one.config for one in records]
    shared = _shared([{key: config[key] for key in config if key not in ("name", "out")} for config in configs])
    own = {one.partition("/")[2]: _own(config, shared) for one, config in zip(of, configs, strict=True)}
    made_there = str(Path(record.config["out"]).with_name(name))  # the paths of one machine
    record.config = {"name": name, "out": made_there} | shared | {"the mean of": own}
    record.results = {"mean of": list(of), "steps": [one.results.get("steps") for one in records]}
    (target.parent / "run.json").write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
    save_file(made, target / "adapter_model.safetensors", metadata={"format": "pt"})
    return {"of": list(of)}


def ask(work: Work, name: str) -> dict[str, Any]:
    """A candidate's answers to the moments of the choice, and the reward of each."""
    return answered(work, name, "choice")


def choose(work: Work) -> dict[str, Any]:
    """All candidates that have answered so far beside the SFT model, and which of them is taken."""
    plain = work.result("supporter/ask-sft")
    resamples = _resamples(work, "choice")
    rows: dict[str, Any] = {}
    for name in ("sft", *work.settings.candidates):
        if note := read_note(work, f"supporter/ask-{name}"):
            rows[name] = _row(note.results, plain, resamples)
    fit = [name for name, row in rows.items() if name != "sft" and qualifies(rows["sft"], row, CHOSEN)]
    taken = max(fit, key=lambda name: rows[name]["reward"][0], default="sft")
    why = (
        f"the highest reward under the evaluation judge among {len(fit)} of {len(rows) - 1} candidates that qualify"
        if fit
        else f"no candidate of {len(rows) - 1} is complete in {COMPLETE:.0%} and more varied than the SFT model"
    )
    return {"candidates": rows, "qualify": fit, "supporter": taken, "why": why}


def confirm(work: Work) -> dict[str, Any]:
    """The chosen supporter and the SFT model on fresh moments, several answers to each."""
    told = work.result("supporter/choose")
    taken = told["supporter"]
    found = {
        name: over_draws([answered(work, name, "confirm", draw) for draw in range(work.settings.draws)])
        for name in dict.fromkeys(("sft", taken))
    }
    resamples = _resamples(work, "confirm")
    rows = {name: _row(one, found["sft"], resamples) for name, one in found.items()}
    held = taken != "sft" and holds(rows["sft"], rows[taken])
    return {"supporter": taken, "why": told["why"], "rows": rows, "holds": held, "shipped": taken if held else "sft"}


def qualifies(plain: Mapping[str, Any], row: Mapping[str, Any], margin: float) -> bool:
    """Whether a supporter is complete, more varied than the SFT model, and has not settled on a strategy or two.

    >>> plain = {"distinct-2": [0.5], "strategies": 7.0}
    >>> qualifies(plain, {"distinct-2": [0.6], "complete": [0.98], "strategies": 5.0}, 0.03)
    True
    >>> qualifies(plain, {"distinct-2": [0.52], "complete": [0.98], "strategies": 5.0}, 0.03)
    False
    >>> qualifies(plain, {"distinct-2": [0.6], "complete": [0.98], "strategies": 2.3}, 0.03)
    False
    """
    varied = row.get("distinct-2", [0.0])[0] >= plain.get("distinct-2", [0.0])[0] + margin
    ready = row["strategies"] >= STRATEGIES * plain["strategies"]
    return bool(varied and ready and row["complete"][0] >= COMPLETE)


def holds(plain: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether it also lies above the SFT model beyond chance."""
    low = row["above sft"][1]
    return qualifies(plain, row, CONFIRMED) and low is not None and low > 0


def answered(work: Work, name: str, where: str, draw: int = 0) -> dict[str, Any]:
    """Answers to some moments, with the reward of each under the evaluation judge; what is answered stays so."""
    path = samples_path(work, name, where, draw)
    if path.is_file():
        there = data.read(path)
        if [one.id for one in there] != [one.id for one in data.read(work.items(where))]:
            raise UserError(
                f"{path} answers other moments than {work.items(where)} holds. Remove it to have them answered."
            )
        found = figures(work, name, path, there)
    else:
        found = sample(work, name, where, draw)
    return found | {"rewards": judged_alone(work, name, where, draw).tolist()}


def over_draws(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several answers to each moment as one: a figure is the mean over the draws, each of them as large as a single
    one, so that distinct-2 means the same; so are its bounds, which are then too wide rather than too narrow. The
    reward of a moment is the mean of its answers'.

    >>> one, other = ({"moments": 2, "complete": [low, low, 1.0], "rewards": [low, 1.0]} for low in (0.0, 1.0))
    >>> over_draws([one, other])
    {'moments': 2, 'complete': [0.5, 0.5, 1.0], 'rewards': [0.5, 1.0], 'draws': 2}
    """
    made = {
        name: _mean([one[name] for one in found])
        for name, value in found[0].items()
        if isinstance(value, (list, float)) and all(name in one for one in found)
    }
    return dict(found[0]) | made | {"draws": len(found)}


def _mean(values: Sequence[Any]) -> Any:
    """The mean of numbers, or of lists of them place by place; where one is not known, neither is the mean."""
    if isinstance(values[0], list):
        return [_mean(place) for place in zip(*values, strict=True)]
    return None if None in values else float(np.mean(values))


def _row(found: Mapping[str, Any], plain: Mapping[str, Any], resamples: Resamples) -> dict[str, Any]:
    values, its = (np.array(one["rewards"]) for one in (found, plain))
    return {key: value for key, value in found.items() if key != "rewards"} | above(values, its, resamples)


def _shared(configs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The settings that are the same in all, groups of settings gone into.

    >>> _shared([{"kl": 0.1, "reward": {"soft": True, "weights": {}}}, {"kl": 0.2, "reward": {"soft": True}}])
    {'reward': {'soft': True}}
    """
    found = {}
    for key, value in configs[0].items():
        groups = [group for config in configs if isinstance(group := config.get(key), Mapping)]
        if all(key in config and config[key] == value for config in configs):
            found[key] = value
        elif len(groups) == len(configs) and (same := _shared(groups)):
            found[key] = same
    return found


def _own(config: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of one that are not shared; where it was written and what it was called are none.

    >>> _own({"kl": 0.1, "out": "there", "reward": {"soft": True, "weights": {}}}, {"reward": {"soft": True}})
    {'kl': 0.1, 'reward': {'weights': {}}}
    """
    found = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and isinstance(shared.get(key), Mapping):
            if more := _own(value, shared[key]):
                found[key] = more
        elif key not in shared and key not in ("name", "out"):
            found[key] = value
    return found


def _resamples(work: Work, where: str) -> Resamples:
    return Resamples(dialogues_of(data.read(work.items(where))), work.settings.measure.rounds, work.settings.seed)


def _record(run: Path) -> Record:
    return msgspec.json.decode((run / "run.json").read_bytes(), type=Record)
