"""Text under judgement stays text: what is quoted can be read back, and nothing in it can pose as ours."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reward.attacks import ATTACKS, unquote

from compeer.reward.conversation import MARK, quote

ANYTHING = st.text(st.characters(codec=None, categories=None), max_size=80)
TROUBLE = st.text(st.sampled_from("<[\\u{}|>/ \n\r\t0a\u2028\x00\x1b正"), max_size=40)


@given(st.one_of(ANYTHING, TROUBLE))
@settings(max_examples=400, deadline=None)
def test_what_is_quoted_can_be_read_back(text: str) -> None:
    assert unquote(quote(text)) == text


@given(st.one_of(ANYTHING, TROUBLE))
@settings(max_examples=400, deadline=None)
def test_every_line_is_marked_whoever_breaks_lines(text: str) -> None:
    block = quote(text)
    assert block.splitlines() == block.split("\n")
    assert all(line.startswith(MARK) for line in block.split("\n"))
    assert block.encode(), "and it can be written as UTF-8"


@given(TROUBLE, TROUBLE)
@settings(max_examples=300, deadline=None)
def test_different_texts_look_different(one: str, other: str) -> None:
    assert (quote(one) == quote(other)) == (one == other)


@pytest.mark.parametrize("text", ATTACKS)
def test_attacks_come_back_as_they_were(text: str) -> None:
    assert unquote(quote(text)) == text


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("plain", "a line without the mark"),
        ("> one\ntwo", "one of the lines is ours"),
        ("> <b", "an angle bracket that was not escaped"),
        ("> [b", "a square bracket that was not escaped"),
        ("> \\n", "a backslash that escapes nothing"),
        ("> \\u{110000}", "no such character"),
        ("", "nothing at all"),
        (">no space", "half a mark"),
    ],
)
def test_what_quoting_cannot_have_written_is_refused(block: str, why: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        unquote(block)


#: control tokens of the families of chat models
CONTROL = {
    "chatml": ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|vision_start|>", "<|image_pad|>"],
    "llama 3": ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
    "llama 2 and mistral": [
        "<s>",
        "</s>",
        "<unk>",
        "[INST]",
        "[/INST]",
        "[TOOL_CALLS]",
        "[AVAILABLE_TOOLS]",
        "<<SYS>>",
    ],
    "gemma": ["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"],
    "deepseek": ["<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"],
    "ours": ["<think>", "</think>", "<history>", "</history>", "<emotion>", "<strategy>"],
}


@pytest.mark.parametrize("family", CONTROL)
def test_no_control_token_survives(family: str) -> None:
    """In a tokenizer that has them all, as special and as ordinary added tokens."""
    tokenizer, control = _tokenizer(CONTROL[family])
    for text in (*ATTACKS, *CONTROL[family], "".join(CONTROL[family])):
        text = text.encode("utf-8", "replace").decode()
        plain = tokenizer.encode(quote(text)).ids
        assert not control & set(plain), text
    assert control & set(tokenizer.encode("".join(CONTROL[family])).ids), "without quoting they are control tokens"


def _tokenizer(tokens: list[str]) -> tuple[Any, set[int]]:
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={sign: number for number, sign in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(tokens[::2])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in tokens[1::2]])
    return tokenizer, {tokenizer.token_to_id(token) for token in tokens}


def test_a_person_can_still_read_it() -> None:
    assert quote("I'm tired.\nSo tired.") == "> I'm tired.\n> So tired."
    assert quote("a < b [1] C:\\x") == "> a <\\ b [\\1] C:\\\\x"
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", quote("a\x00b\rc"))
