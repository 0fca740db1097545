"""GRPO small enough for a test: a tiny random model, a judge that likes a letter, a dozen prompts.

python -m tests.policy.toy CONFIG.json        the run in a process of its own (or two: torchrun), with fixed outputs
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from compeer.cer.item import Item, PastTurn
from compeer.dialogue import write_rows
from compeer.policy.grpo.config import GrpoConfig, config_of

SAID = ("I lost my job.", "My dog died.", "I can't sleep.", "We broke up.", "Exams scare me.", "Nobody calls me.",
        "I failed again.", "They laughed at me.", "I miss home.", "My head hurts.", "I feel empty.", "He is gone.")  # fmt: skip


def items(pictures: tuple[str, ...] = ()) -> list[Item]:
    """A moment each; the first ones with a picture where there are some."""
    shown: list[tuple[str, ...]] = [(path,) for path in pictures]
    return [
        Item(
            id=f"t{number}#1", dialogue=f"t{number}", source="test", licence="CC0-1.0", language="en", round=1,
            history=(PastTurn("seeker", said, shown[number] if number < len(shown) else ()),),
            reference="Oh no. What happened?",
        )
        for number, said in enumerate(SAID)
    ]  # fmt: skip


def settings(folder: Path, model: Path, judge: str, **more: Any) -> dict[str, Any]:
    """Only the preference can be earned by a model that writes noise, and it is paid by probability."""
    write_rows(folder / "items.jsonl", items())
    return {
        "out": str(folder / "run"), "model": str(model), "data": [str(folder / "items.jsonl")], "device": "cpu",
        "judge": {"spec": judge, "budget": 20}, "reward": {"soft": True, "reweight": False},
        "length": "brief", "max_prompt": 1500, "max_completion": 8, "batch": 3, "group": 4, "micro_batch": 12,
        "learning_rate": 5e-3, "save_every": 1000, "samples": 1000, **more,
    }  # fmt: skip


def config(folder: Path, model: Path, judge: str, **more: Any) -> GrpoConfig:
    return config_of(settings(folder, model, judge, **more))


def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
    """Outputs that hang on the prompt and the place in the group alone, whoever is asked for them."""
    tokenizer = trainer.processing_class
    ids = [tokenizer.apply_chat_template(prompt, add_generation_prompt=True)["input_ids"] for prompt in prompts]
    words = ("eel", "tree", "go", "sleep well", "he", "oh", "see me", "no")
    texts = [f"{words[(len(prompt[-1]['content']) + place) % 8]} {place % 4}" for place, prompt in enumerate(prompts)]
    written = [[*tokenizer(text)["input_ids"], tokenizer.eos_token_id] for text in texts]
    return {"prompt_ids": ids, "completion_ids": written, "logprobs": None}


if __name__ == "__main__":
    from compeer.policy.grpo.run import train

    train(config_of(json.loads(Path(sys.argv[1]).read_text())), quiet=True, rollout_func=rollout)
