"""How many files of the package one dialogue passes on its way from a corpus to a GRPO reward."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from tests.reward.rule_judge import RuleJudge

import compeer
from compeer.cer.build import Build, CorpusSource, build
from compeer.cer.item import read_items
from compeer.models.embedding import Embedder
from compeer.policy.composite import CompositeReward, RewardSettings
from compeer.policy.prompts import demonstration, encoded, prompts_of
from compeer.reward.client import JudgeClient

PACKAGE = Path(compeer.__file__).parent


@contextmanager
def noting(files: set[str]) -> Iterator[None]:
    """Notes the files whose functions are called, in every thread that starts meanwhile."""

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(PACKAGE)) and frame.f_code.co_name != "<module>":
            files.add(str(Path(name).relative_to(PACKAGE)))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


class Letters(Embedder):
    """Vectors of letter counts."""

    def _function(self, place: str) -> Any:
        return lambda texts: np.array([[text.count(sign) + 0.1 for sign in "etaoin"] for text in texts], float)


def from_corpus_to_reward(out: Path) -> list[float]:
    """What `compeer cer build` and a step of `compeer policy grpo` do, up to the reward."""
    source = CorpusSource("open-cer", limit=12, options={"language": "en"})
    build(Build(name="trace", out=str(out), corpora=(source,), silver={"per_dialogue": 2}))
    items = [item for path in sorted((out / "dataset").rglob("*.jsonl")) for item in read_items(path)]
    prompts = prompts_of(items, count=lambda messages: 10, most=1000, length="brief")[0][:2]
    outputs = [demonstration(item) for item in items if demonstration(item)][:2]
    reward = CompositeReward(JudgeClient(RuleJudge(), budget=20.0), Letters(), RewardSettings(), group=2)
    return reward(
        prompts=[prompts[0].messages] * 2,
        completions=outputs,
        prompt_record=[encoded(prompts[0].prompt_record)] * 2,
    )


def test_a_dialogue_passes_few_files(tmp_path: Path) -> None:
    """About 120 before the chapters were written."""
    from_corpus_to_reward(tmp_path / "first")  # what runs while modules are imported is not on the way
    files: set[str] = set()
    with noting(files):
        rewards = from_corpus_to_reward(tmp_path / "second")
    assert len(rewards) == 2 and all(value is not None for value in rewards)
    print(len(files), *sorted(files), sep="\n")
    assert len(files) <= 45, "\n".join(sorted(files))
