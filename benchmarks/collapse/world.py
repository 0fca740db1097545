"""A small world: eight people, 216 ways to answer any of them, and a model that can speak of nothing else.

A reply has three sentences, each chosen from six. The thinking is the same throughout and one token of the toy's
vocabulary: what is looked at here is the variety of replies, and so every other token is a word of one.
"""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Any

from compeer.cer.item import Item, PastTurn
from compeer.reasoning import Reasoning, render, system_prompt

SAID = (
    "I lost my job last week.",
    "My mother is very ill.",
    "I cannot sleep at night.",
    "My best friend moved away.",
    "I failed my exam again.",
    "We argue every single day.",
    "Nobody at school talks to me.",
    "I am afraid of tomorrow.",
)
FIRST = (
    "That sounds really hard.",
    "Thank you for telling me.",
    "What a heavy week.",
    "No wonder you feel worn out.",
    "Your worry makes sense.",
    "It took courage to say this.",
)
SECOND = (
    "You are not alone.",
    "When did it begin?",
    "Who knows about this?",
    "What hurts the most?",
    "How do your evenings look?",
    "Which moment stays with you?",
)
THIRD = (
    "I am here for you.",
    "Take all the time you need.",
    "We can go slowly.",
    "Small steps are enough today.",
    "Let us look at it together.",
    "Rest if that helps.",
)
SLOTS = (FIRST, SECOND, THIRD)
FAVOURITE = tuple(slot[0] for slot in SLOTS)
_KNOWN = {" ".join(three): three for three in product(*SLOTS)}
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_SPECIAL = ("<unk>", "<pad>", "<|im_start|>", "<|im_end|>")
_THOUGHT = Reasoning.of(
    {"history": "They carry something.", "emotion": "It weighs on them.", "strategy": "Stay close."},
    {"stage": "exploration", "sentiment": "negative", "emotion": "sadness", "intensity": 3,
     "strategy": "reflection of feelings"},
)  # fmt: skip


def replies() -> list[str]:
    """All ways to answer."""
    return list(_KNOWN)


def sentences(reply: str) -> tuple[str, ...] | None:
    """The three sentences of a reply; None for one that this world does not know."""
    return _KNOWN.get(reply)


def moments() -> list[Item]:
    """One item for each person, as GRPO asks them."""
    return [_item(number, 0, " ".join(FAVOURITE)) for number in range(len(SAID))]


def demonstrations(count: int, seed: int = 0) -> list[Item]:
    """Items to learn from: every person answered in `count` different ways."""
    rng = random.Random(seed)
    ways = [(number, reply) for number in range(len(SAID)) for reply in rng.sample(replies(), count)]
    return [_item(number, at + 1, reply) for at, (number, reply) in enumerate(ways)]


def build(folder: Path, seed: int = 0) -> None:
    """A new model of two layers, its tokenizer, in the files of a real checkpoint."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = _tokenizer()
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=256,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _item(number: int, at: int, reply: str) -> Item:
    return Item(
        id=f"person-{number}#{at + 1}", dialogue=f"person-{number}", source="collapse", licence="CC0-1.0",
        language="en", round=1, history=(PastTurn("seeker", SAID[number]),), reference=reply,
        reference_reasoning=_THOUGHT, variant="original" if at == 0 else "duplicate",
    )  # fmt: skip


def _tokenizer() -> Any:
    """Words with the space before them; one thought is one token."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    splitter = pre_tokenizers.Split(Regex(r"<think>[\s\S]*?</think>\n| ?[^\s]+|\s"), "isolated")
    written = render(_THOUGHT, " ".join(FAVOURITE))
    texts = [system_prompt("en", length="brief"), "system\n", "user\n", "assistant\n", *SAID, *replies(), written]
    pieces = dict.fromkeys(piece for text in texts for piece, _ in splitter.pre_tokenize_str(text))
    vocabulary = {token: number for number, token in enumerate((*_SPECIAL, *pieces))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        pad_token="<pad>",
        eos_token="<|im_end|>",
        extra_special_tokens=["<|im_start|>"],
        chat_template=CHATML,
    )
