"""Supervised training on TRL's SFTTrainer.

    settings = ModelSettings(base="embedded:small", lora=Lora())
    results = sft(train, valid, model=settings, plan=Plan(), words=words, run=run, name="judge")

Departures from TRL's own preparation, each for a reason:
- Conversations are encoded before (`encode`), so nothing is cut off in silence: what is too long is refused here.
- The trainer sees numbers of examples and our collator makes the batches, so that rows with and without pictures may
  be mixed (TRL 1.16 crashes on them). Our sampler orders them, so that a resumed run is exact to the bit, in the middle
  of an epoch and at its end.
- Epochs are whole: transformers goes a step too far when it resumes at the last step of a broken one.

With validation rows the result is the checkpoint with the lowest loss on them, else the last one.

`INTERNALS` lists the names of TRL and transformers that are not public and are used here and in `policy.grpo.trainer`;
those of GRPO's loss and rollouts are in `policy.trl_internals`. A test fails when one of them moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from compeer.errors import UserError
from compeer.models.checkpoint import ChatTokenizer
from compeer.models.shipped import Role
from compeer.training.encode import BatchOrder, Collator, Example
from compeer.training.model import (
    HeldModel,
    ModelSettings,
    Trainable,
    arguments,
    find_adapter,
    on_gpu,
    save_model,
    shape_of,
)
from compeer.training.run import Run, processes

Count = Annotated[int, Meta(ge=1)]
#: names that are not public, and why each is needed
INTERNALS = {
    "transformers.Trainer._get_train_sampler": "the order of examples: exact when a run is resumed",
    "transformers.Trainer._get_eval_sampler": "the same for validation",
    "transformers.Trainer._load_callback_state": "after it the count of tokens is restored",
    "transformers.Trainer._issue_warnings_after_load": "a checkpoint that does not fit must be an error",
}
#: the same for attributes that exist only on a trainer
ATTRIBUTES = {"_total_train_tokens": "TRL counts padding as tokens, and from zero after a resume"}


class Plan(HeldModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a supervised training. The paper gives the learning rate and the batch size; the rest is ours."""

    adapter: str | None = None  # to start from: a folder saved by peft, or "shipped"; it brings its own shape

    learning_rate: Annotated[float, Meta(gt=0)] = 1e-5
    batch_size: Count = 64  # over all devices and accumulated steps
    micro_batch: Count | None = None  # on one device at a time; by default what divides the batch and is usual there
    epochs: Count = 3
    warmup: Annotated[float, Meta(ge=0, lt=1)] = 0.03  # share of the steps
    schedule: str = "cosine"
    weight_decay: Annotated[float, Meta(ge=0)] = 0.0
    max_grad_norm: Annotated[float, Meta(ge=0)] = 1.0
    max_length: Count = 4096  # tokens
    seed: int = 0
    log_every: Count = 5  # steps
    save_every: Count | None = None  # steps, and validation with it; by default four times an epoch
    keep: Count = 2  # checkpoints, besides the best

    def start(self, role: Role) -> Path | None:
        """The folder of the adapter to start from, if any."""
        return find_adapter(self.adapter, role)

    def model_of(self, base: str, role: Role) -> ModelSettings:
        """The model that is trained; an adapter to start from brings its own shape."""
        found = self.start(role)
        return self.settings(base, shape_of(found, self.lora) if found else self.lora)


def sft(
    train: Sequence[Example],
    valid: Sequence[Example],
    *,
    model: ModelSettings,
    plan: Plan,
    words: ChatTokenizer,
    run: Run,
    name: str,
    beside: Mapping[str, Any] | None = None,
    quiet: bool = False,
    adapter: Path | None = None,
) -> dict[str, Any]:
    """Train or resume, save the result to `run.model`, and return its figures. Every process must call this.

    `adapter`: a folder with an adapter of the model's shape, to begin with instead of a new one.
    """
    import datasets

    from compeer.training.model import open_with
    from compeer.training.watch import watch

    _check(train, valid, plan.max_length)
    config = _config(train, valid, model, plan, run)  # before the model: ZeRO-3 shards while loading
    opened = open_with(adapter, model, plan.seed)
    examples = [*train, *valid]
    numbers = range(len(train)), range(len(train), len(examples))
    trainer = _trainer()(
        model=opened.model,
        args=config,
        processing_class=opened.processing,
        data_collator=Collator(examples, words),
        train_dataset=datasets.Dataset.from_dict({"number": list(numbers[0])}),
        eval_dataset=datasets.Dataset.from_dict({"number": list(numbers[1])}) if valid else None,
    )
    micro, each = config.per_device_train_batch_size, processes()
    trainer.train_order = BatchOrder(train, micro, each, plan.seed, lambda: math.floor(trainer.state.epoch or 0))
    trainer.eval_order = BatchOrder(valid, micro, each, plan.seed, None)
    watch(trainer, run, name, keep=plan.keep, quiet=quiet)
    trainer.train(resume_from_checkpoint=run.resume_from)
    return _finish(trainer, opened, valid, run, beside)


def micro_batch(plan: Plan, gpu: bool, each: int) -> tuple[int, int]:
    """Rows per device at a time, and accumulation steps.

    >>> micro_batch(Plan(), gpu=True, each=8), micro_batch(Plan(batch_size=6, micro_batch=3), gpu=False, each=1)
    ((8, 1), (3, 2))
    """
    share, rest = divmod(plan.batch_size, each)
    if rest or not share:
        raise UserError(
            f"batch_size {plan.batch_size} cannot be divided among {each} processes; choose a multiple of {each}."
        )
    if plan.micro_batch is None:
        most = 8 if gpu else 4
        micro = max(size for size in range(1, min(most, share) + 1) if share % size == 0)
    else:
        micro = plan.micro_batch
    if share % micro:
        raise UserError(f"micro_batch {micro} does not divide the {share} rows that each process has of a batch.")
    return micro, share // micro


def _check(train: Sequence[Example], valid: Sequence[Example], max_length: int) -> None:
    if not train:
        raise UserError("There is nothing to train on: no row is left.")
    long = [len(example) for example in (*train, *valid) if len(example) > max_length]
    if long:
        raise UserError(
            f"{len(long)} rows are longer than max_length {max_length} (the longest has {max(long)} tokens). "
            "Raise max_length, or shorten or leave out these rows; they would be cut off in the middle."
        )


def _config(train: Sequence[Example], valid: Sequence[Example], model: ModelSettings, plan: Plan, run: Run) -> Any:
    from trl import SFTConfig

    micro, accumulated = micro_batch(plan, on_gpu(model), processes())
    rows = len(BatchOrder(train, micro, processes(), plan.seed, None))
    steps = math.ceil(math.ceil(rows / (micro * processes())) / accumulated)  # an epoch's
    every = plan.save_every or max(1, steps // 4)
    with_images = any(example.images for example in (*train, *valid))
    return SFTConfig(
        output_dir=str(run.checkpoints),
        per_device_train_batch_size=micro,
        per_device_eval_batch_size=micro,
        gradient_accumulation_steps=accumulated,
        learning_rate=plan.learning_rate,
        num_train_epochs=plan.epochs,
        warmup_steps=plan.warmup,
        lr_scheduler_type=plan.schedule,
        weight_decay=plan.weight_decay,
        max_grad_norm=plan.max_grad_norm,
        seed=plan.seed,
        logging_steps=plan.log_every,
        logging_first_step=True,
        save_strategy="steps",
        save_steps=every,
        eval_strategy="steps" if valid else "no",
        eval_steps=every if valid else None,
        load_best_model_at_end=bool(valid),
        metric_for_best_model="eval_loss" if valid else None,
        greater_is_better=False,
        max_length=None,  # checked before
        dataset_kwargs={"skip_prepare_dataset": True},
        remove_unused_columns=False,
        dataloader_num_workers=4 if with_images and on_gpu(model) else 0,
        **arguments(model),
    )


def _trainer() -> Callable[..., Any]:
    """SFTTrainer with our order of examples. Importing TRL takes seconds, so the class is made when it is needed."""
    from trl import SFTTrainer

    class Trainer(SFTTrainer):  # type: ignore[misc]
        train_order: BatchOrder
        eval_order: BatchOrder

        def _get_train_sampler(self, train_dataset: Any = None) -> BatchOrder:
            return self.train_order

        def _get_eval_sampler(self, eval_dataset: Any) -> BatchOrder:
            return self.eval_order

        def create_model_card(self, *args: Any, **kwargs: Any) -> None:
            """Do nothing: our card is written at the end."""

        def _load_callback_state(self) -> None:
            super()._load_callback_state()
            self._total_train_tokens = self.state.num_input_tokens_seen  # TRL would count from zero again

        def _issue_warnings_after_load(self, load_result: Any) -> None:
            """Accept missing weights only if they are tied to weights that are there."""
            weights = self.model.state_dict()
            missing = set(load_result.missing_keys)
            read = {weights[name].data_ptr() for name in weights if name not in missing}
            if load_result.unexpected_keys or any(weights[name].data_ptr() not in read for name in missing):
                raise UserError("A checkpoint does not fit the model, so training cannot resume from it.")

        def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
            inputs, padding = _unmasked(inputs)
            loss = super().compute_loss(model, inputs, *args, **kwargs)
            if self.model.training:
                self._total_train_tokens -= int(self.accelerator.gather_for_metrics(padding).sum())
            self.state.num_input_tokens_seen = int(self._total_train_tokens)
            return loss

    return Trainer


def _unmasked(inputs: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """The batch with an attention mask of ones, and the number of padding tokens.

    Text is padded on the right, and a token attends to what stands before it, so padding is never looked at. Without a
    mask to apply, attention is done by the fast kernels. A batch with pictures keeps its mask: positions depend on it.
    """
    mask = inputs["attention_mask"]
    if set(inputs) != {"input_ids", "attention_mask", "labels"}:
        return inputs, mask.new_zeros(())
    return inputs | {"attention_mask": mask.new_ones(mask.shape)}, (1 - mask).sum()


def _finish(
    trainer: Any, opened: Trainable, valid: Sequence[Example], run: Run, beside: Mapping[str, Any] | None
) -> dict[str, Any]:
    state = trainer.state
    logged = [line for line in state.log_history if "loss" in line]
    checked = [line for line in state.log_history if "eval_loss" in line]
    results: dict[str, Any] = {"steps": state.global_step, "best_step": state.best_global_step if valid else None}
    results |= {"train_loss": logged[-1]["loss"]} if logged else {}
    if checked:
        best = min(checked, key=lambda line: float(line["eval_loss"]))
        results |= {key: best[key] for key in ("eval_loss", "eval_mean_token_accuracy") if key in best}
    save_model(trainer, opened, run.model, beside)
    trained, whole = opened.parameters()
    return results | {"tokens": state.num_input_tokens_seen, "trained_parameters": trained, "parameters": whole}
