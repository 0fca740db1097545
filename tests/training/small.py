"""Things small enough to be trained in seconds: items of a few words, and a model whose tokenizer knows these words.

Each step of an item says one word of its own again and again, so that two layers can learn its label by heart; nothing
else tells it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.conftest import CHATML, SPECIAL

from compeer.cer.item import Candidate, Item, Labels, PastTurn, Preference
from compeer.reasoning import Reasoning
from compeer.reasoning.ontology import EMOTIONS, STAGES, STRATEGIES, sentiment_of
from compeer.reward.verdict import PREFERENCES

WORDS = [
    "amber",
    "basil",
    "cedar",
    "dusk",
    "ember",
    "flint",
    "grove",
    "haze",
    "iris",
    "jade",
    "kelp",
    "lilac",
    "maple",
    "north",
    "ochre",
    "pearl",
    "quartz",
    "reed",
    "slate",
    "thorn",
    "umber",
    "vale",
    "willow",
    "yarrow",
    "zinc",
    "birch",
    "coral",
    "delta",
    "elm",
    "fern",
    "glade",
    "heath",
]

ENDINGS = {"history": "ing", "emotion": "ish", "strategy": "ward"}


def item(number: int, *, language: str = "en", images: tuple[str, ...] = (), **changes: Any) -> Item:
    """An item whose labels are drawn by chance, and known from its number alone."""
    rng = Random(f"small {number}")
    word = WORDS[number % len(WORDS)]
    texts = {step: " ".join([word + ending] * 6) for step, ending in ENDINGS.items()}
    emotion = rng.choice(EMOTIONS.ids)
    labels = {
        "stage": rng.choice(STAGES.ids),
        "sentiment": sentiment_of(emotion),
        "emotion": emotion,
        "intensity": rng.randint(1, 5),
        "strategy": rng.choice(STRATEGIES.ids),
    }
    reasoning = Reasoning.of(texts, labels, language)  # type: ignore[arg-type]
    preference: Preference = rng.choice(PREFERENCES)
    values: dict[str, Any] = {
        "id": f"small/{number}",
        "dialogue": f"small/{number}",
        "source": "small",
        "licence": "CC0",
        "language": language,
        "round": 1,
        "history": (PastTurn("seeker", word, images),),
        "reference": " ".join([word] * 6),
        "candidate": Candidate(response=" ".join([word + "let"] * 6), reasoning=reasoning, generator="small"),
        "labels": Labels(
            history=rng.random() < 0.5,
            emotion=rng.random() < 0.5,
            strategy=rng.random() < 0.5,
            preference=preference,
        ),
        "label_source": "human",
    }
    return Item(**values | changes)


def small_model(folder: Path, items: Sequence[Item]) -> Path:
    """A Llama of two layers whose tokenizer was trained on the judge's conversations about these items."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    from compeer.reward.train import RowSettings, chat, rows

    texts = [message["content"] for one in items for row in rows(one, RowSettings()) for message in chat(row)]
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=1500, special_tokens=list(SPECIAL), initial_alphabet=alphabet, show_progress=False
        ),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<pad>", chat_template=CHATML
    )
    torch.manual_seed(7)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=4096,
            initializer_range=0.1,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    folder.mkdir(parents=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def in_child(work: Callable[[], None]) -> int:
    """Do something in a process of its own that may be killed; its exit code, negative for a signal."""

    def alone() -> None:
        with contextlib.suppress(BaseException), Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
            work()
            os._exit(0)
        os._exit(1)

    child = multiprocessing.get_context("fork").Process(target=alone)
    child.start()
    child.join(timeout=120)
    code = child.exitcode
    assert code is not None
    return code


def kill_me() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
