"""A conversation as the text that a model in llama.cpp reads.

The known weights are written in ChatML here rather than by llama.cpp's template engine, for three reasons: what is
known of the output beforehand is given as a prefix instead of being decoded; a person's text cannot smuggle in control
tokens; and the same function serves training. Any other GGUF file is written by its own template (`gguf:PATH`); its
control tokens are read from the file, so that a text cannot hold them either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compeer.models.gguf_header import control_tokens
from compeer.models.llama_server import LlamaServer
from compeer.models.slots import Prompt
from compeer.models.weights import BASE, SMALL, Weights

Messages = Sequence[dict[str, Any]]

# where a control token of SmolLM2 or Qwen2.5 would begin
_CONTROL = re.compile(
    r"<(?=\||/?tool_call>|(?:repo_?name|file_sep|filename|gh_stars|issue_(?:start|comment|closed)|empty_output"
    r"|jupyter_(?:start|text|code|output|script))>)"
)

_END, _OPENING = "<|im_end|>\n", "<|im_start|>assistant\n"

# what the models' own templates put first when a conversation has no system message
_DEFAULT_SYSTEM = {
    SMALL.name: "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
    BASE.name: "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
}


def chatml(messages: Messages, weights: Weights = SMALL) -> str:
    """The conversation in ChatML, ready for the assistant's turn. Control tokens inside a text are defused."""
    if not messages or messages[0]["role"] != "system":
        messages = [{"role": "system", "content": _DEFAULT_SYSTEM[weights.name]}, *messages]
    return "".join(map(_turn, messages)) + _OPENING


def chatml_prompt(messages: Messages, weights: Weights) -> Prompt:
    """The same with its parts: the system message, and what was said up to the person's last message."""
    text = chatml(messages, weights)
    last = max((place for place, one in enumerate(messages) if one["role"] == "user"), default=-1)
    said = chatml(messages[: last + 1], weights).removesuffix(_OPENING) if last >= 0 else ""
    return Prompt(text, text[: text.index(_END) + len(_END)], said)


def _turn(message: dict[str, Any]) -> str:
    return f"<|im_start|>{message['role']}\n{defused(text_of(message))}{_END}"


def defused(text: str) -> str:
    """The text with a space in every control token, so that it stays text."""
    return _CONTROL.sub("< ", text)


def text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content if "text" in part)


class OwnTemplate:
    """The chat template in a GGUF file, applied by llama.cpp."""

    def __init__(self, file: Path) -> None:
        tokens = sorted(control_tokens(file), key=len, reverse=True)
        self._control = re.compile("|".join(re.escape(token) for token in tokens) or "(?!)")

    def defused(self, text: str) -> str:
        return self._control.sub(lambda found: found[0][0] + " " + found[0][1:], text)

    def prompt(self, server: LlamaServer, messages: Messages) -> Prompt:
        """The conversation, ready for the assistant's turn. Where the person's last message ends in the text is found
        by its words, since a template may write anything around them."""
        plain = [{"role": one["role"], "content": self.defused(text_of(one))} for one in messages]
        text = str(server.request("POST", "/apply-template", {"messages": plain})["prompt"])
        last = next((one["content"] for one in reversed(plain) if one["role"] == "user"), "").strip()
        place = text.rfind(last) if last else -1
        return Prompt(text, said=text[: place + len(last)] if place >= 0 else "")
