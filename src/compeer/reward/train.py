"""Training the judge: `compeer reward train CONFIG`.

The paper trains UnifiReward from Qwen2.5-VL-7B with a learning rate of 1e-5 and a batch of 64, vision tower frozen;
these are the defaults. It says nothing about epochs, schedule or length: those are ours (`compeer.training.sft.Plan`).
PRM and ORM are trained in the same way on the same items, for comparison.

The run's folder is described in `compeer.training.run`. RUN/model also holds `judge.json`, from which a judge opened
on that folder knows what it is. Run the same command again to go on where it stopped; with several GPUs:

    accelerate launch -m compeer.cli reward train configs/reward/paper.yaml
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from compeer.cer.item import Item, Split, read_items, without_images
from compeer.errors import UserError
from compeer.reward.training_rows import Choices, Made, make
from compeer.reward.verdict import Kind
from compeer.training.model import Lora, ModelSettings, find_adapter, shape_of, start_identity
from compeer.training.run import Record, Run, data_file, is_main, open_run, revision
from compeer.training.sft import Outcome, Plan, sft
from compeer.typed import from_plain

Files = Annotated[tuple[str, ...], Meta(min_length=1)]
#: settings that may differ when a run is resumed: where things lie, how much is shown and kept, what fits a device
FREE = (
    "out",
    "train",
    "valid",
    "base",
    "adapter",
    "log_every",
    "keep",
    "micro_batch",
    "device",
    "gradient_checkpointing",
)


class Config(Plan, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A training of the judge, as its YAML file says it: what is here, and all of `Plan`."""

    out: str
    base: str
    train: Files  # CER items, JSON lines, plain or compressed
    valid: tuple[str, ...] = ()
    kind: Kind = "unified"
    lora: Lora | None = None  # without it all of the language model is trained; {} takes the defaults
    adapter: str | None = None  # to begin with: a folder that peft has saved, or "shipped"; it brings its own shape
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    gradient_checkpointing: bool | None = None
    reasons: Annotated[float, Meta(ge=0, le=1)] = 0.5
    orders: Literal["one", "both"] = "one"
    repeat_false: Annotated[float, Meta(ge=1)] = 1.0
    pictures: Literal["keep", "drop"] = "keep"
    limit: Annotated[int, Meta(ge=1)] | None = None  # items, for a trial

    @property
    def start(self) -> Path | None:
        return find_adapter(self.adapter, "judge")

    @property
    def model(self) -> ModelSettings:
        return ModelSettings(
            base=self.base,
            lora=shape_of(found, self.lora) if (found := self.start) else self.lora,
            dtype=self.dtype,
            device=self.device,
            gradient_checkpointing=self.gradient_checkpointing,
        )

    @property
    def choices(self) -> Choices:
        return Choices(
            kind=self.kind,
            seed=self.seed,
            reasons=self.reasons,
            orders=self.orders,
            repeat_false=self.repeat_false,
        )


class Trained(msgspec.Struct, frozen=True):
    """A finished training."""

    run: str
    model: str
    results: dict[str, Any]
    already: bool = False  # it had been finished before


def read_config(path: str | Path, changes: Sequence[str] = ()) -> tuple[Config, str]:
    """The configuration in a YAML file, with `key=value` changes, and its text; errors name the field."""
    import yaml

    try:
        text = Path(path).read_text(encoding="utf-8")
        values = yaml.safe_load(text)
    except OSError as error:
        raise UserError(f"The configuration {path} cannot be read: {error.strerror}.") from None
    except yaml.YAMLError as error:
        raise UserError(f"The configuration {path} is not usable: {error}.") from None
    if not isinstance(values, dict):
        raise UserError(f"The configuration {path} is not usable: it must be a list of settings, `name: value`.")
    for change in changes:
        _set(values, change)
    try:
        return from_plain(_numbers(values), Config), text
    except msgspec.ValidationError as error:
        raise UserError(f"The configuration {path} is not usable: {error}.") from None


def train(config: Config, given: str | None = None, *, force: bool = False, fresh: bool = False) -> Trained:
    """Train, or go on with training; the result lies in RUN/model."""
    if config.device == "cpu":
        os.environ["ACCELERATE_USE_CPU"] = "true"  # before the processes find each other
    run = open_run(config.out, _record(config), given=given, free=FREE, force=force, fresh=fresh)
    try:
        if run.finished:
            return Trained(str(run.folder), str(run.model), run.record.results, already=True)
        return _train(config, run)
    finally:
        run.close()


def _train(config: Config, run: Run) -> Trained:
    from compeer.models.checkpoint import open_tokenizer
    from compeer.training.encode import ChatTokenizer

    words = ChatTokenizer(*open_tokenizer(config.base))
    made, checked = (
        make(_items(files, config, split), config.choices, words, config.max_length)
        for split, files in (("train", config.train), ("valid", config.valid))
    )
    _tell(made, checked)
    judge = {
        "kind": config.kind,
        "base": str(Path(config.base).resolve()) if Path(config.base).is_dir() else config.base,
        "languages": made.languages,
        "labels": made.label_sources,
        "revision": str(revision()),
        "max_length": config.max_length,
    }
    outcome = sft(
        made.examples,
        checked.examples,
        model=config.model,
        plan=config,
        words=words,
        run=run,
        name=f"judge ({config.kind})",
        beside={"judge.json": judge},
        adapter=config.start,
    )
    run.record.results = _results(outcome, made, checked)
    _write_card(run, config, made)
    run.finish(run.record.results)
    return Trained(str(run.folder), str(run.model), run.record.results)


def _record(config: Config) -> Record:
    """What identifies the run. Only the first process hashes the files."""
    if not is_main():
        return Record(kind="judge", config={}, data={}, base={})
    roles = {"train": config.train, "valid": config.valid}
    return Record(
        kind="judge",
        config=msgspec.to_builtins(config),
        data={role: [data_file(path) for path in paths] for role, paths in roles.items() if paths},
        base=start_identity(config.base, config.start),
        seed=config.seed,
    )


def _items(files: Sequence[str], config: Config, split: Split = "train") -> Iterator[Item]:
    """Items to learn from. Those of a test set are refused: nobody could measure the judge any more."""
    count = 0
    for path in files:
        for item in read_items(path, split=split):
            if item.split == "test":
                raise UserError(f"{path}: item {item.id} belongs to a test set and must not be trained on.")
            if config.limit is not None and count >= config.limit:
                return
            count += 1
            yield item if config.pictures == "keep" else without_images(item)


def _results(outcome: Outcome, made: Made, checked: Made) -> dict[str, Any]:
    results: dict[str, Any] = {"steps": outcome.steps, "best_step": outcome.best_step, **outcome.results}
    results |= {"train": made.counts, "valid": checked.counts}
    return {name: value for name, value in results.items() if value not in (None, {})}


def _tell(made: Made, checked: Made) -> None:
    if not is_main():
        return
    for role, part in (("train", made), ("valid", checked)):
        if part.counts:
            told = ", ".join(f"{count:,} {name}" for name, count in part.counts.items())
            print(f"{role}: {told}", file=sys.stderr)
    if shared := made.dialogues & checked.dialogues:
        print(
            f"{len(shared)} dialogues, such as {min(shared)}, stand in both training and validation: "
            "the validation loss will look better than it is.",
            file=sys.stderr,
        )


def _write_card(run: Run, config: Config, made: Made) -> None:
    from compeer.training.card import CardText, write_card

    asked = {
        "unified": "three steps of reasoning and the reply of a supporter, in one conversation of four turns",
        "prm": "each step of a supporter's reasoning, one at a time",
        "orm": "a supporter's reply against a reference, without its reasoning",
    }[config.kind]
    silver = "silver" in made.label_sources
    write_card(
        run,
        CardText(
            title=f"A judge of emotional support ({config.kind})",
            what=f"It judges {asked}, after UnifiReward (arXiv:2508.09521). "
            f"{'An adapter (LoRA) for' if config.model.lora else 'Trained from'} {config.base}; labels: "
            f"{', '.join(made.label_sources) or 'none'}.",
            use=f"    compeer reward score items.jsonl --model hf:{run.model} --out scores.jsonl\n"
            f"    compeer reward eval items.jsonl --model hf:{run.model}",
            base=config.base,
            languages=made.languages,
            licences=made.licences,
            limits=[
                "It says whether reasoning and reply fit a conversation. It cannot tell whether advice is safe, and "
                "must not decide about a person in danger.",
                *(["Silver labels were made by rule from what a corpus's annotators noted, not by people who read "
                   "the candidates. Measure it on human labels before relying on it."] if silver else []),
                f"It reads {config.max_length} tokens; longer histories lose their oldest turns.",
                "The figures above are losses on data of its own kind; compeer reward eval measures F1 and recall.",
            ],
            tags=("reward-model", "emotional-support"),
        ),
    )  # fmt: skip


def _set(values: dict[str, Any], change: str) -> None:
    """`lora.r=8` into nested settings.

    >>> values = {"seed": 0}
    >>> _set(values, "lora.r=8"); values
    {'seed': 0, 'lora': {'r': 8}}
    """
    import yaml

    name, equals, written = change.partition("=")
    if not equals or not name:
        raise UserError(f"--set takes name=value, not {change!r}.")
    *above, last = name.strip().split(".")
    for part in above:
        if not isinstance(values.get(part), dict):
            values[part] = {}
        values = values[part]
    values[last] = yaml.safe_load(written)


def _numbers(values: Any) -> Any:
    """YAML 1.1 takes 1e-5 for text; here it is a number."""
    if isinstance(values, dict):
        return {name: _numbers(value) for name, value in values.items()}
    if isinstance(values, str) and "e" in values.lower():
        try:
            return float(values)
        except ValueError:
            return values
    return values
