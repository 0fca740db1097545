"""`compeer serve` in front of a transformers model: tiny, random, and held to the contract by the grammar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conversation.serving import serving


def test_a_transformers_model_streams_and_says_what_it_used(tiny_model_dir: Path, tmp_path: Path) -> None:
    with serving(tmp_path, f"--model=hf:{tiny_model_dir}", "--prompt=brief", "--name=mine", "--slots=2") as server:
        wishes = {"pin": {"stage": "action"}, "steps": {"history": "They lost their job."}}
        chunks: list[Any] = list(
            server.client().chat.completions.create(
                model="mine",
                messages=[{"role": "user", "content": "I lost my job."}],
                max_tokens=25,
                seed=1,
                stream=True,
                stream_options={"include_usage": True},
                extra_body={"compeer": wishes},
            )
        )
    reasoning = "".join(getattr(chunk.choices[0].delta, "reasoning", None) or "" for chunk in chunks[:-1])
    assert reasoning.startswith("What they face\nThey lost their job.\nStage: action\n\nWhat they feel\n")
    assert len(chunks) > 10, "in pieces"
    assert (chunks[-1].usage.completion_tokens, chunks[-2].choices[0].finish_reason) == (25, "length")
