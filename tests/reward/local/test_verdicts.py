"""The local judge says what one says that encodes every turn from scratch."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.reward.groups import groups, varied
from tests.reward.local.comparing import assert_like, close, judged
from tests.reward.reference import Reference

from compeer.reward import local_scoring as rendering
from compeer.reward.local_judge import LocalJudge
from compeer.reward.verdict import Kind


class TestVerdicts:
    @pytest.mark.parametrize("kind", ["unified", "prm", "orm"])
    def test_they_are_those_of_turns_encoded_one_by_one(
        self, kind: Kind, tiny_model_dir: Path, reference: Reference, either: None
    ) -> None:
        cases = varied(groups(2, 3, "en") + groups(1, 2, "zh"))
        found = judged(tiny_model_dir, cases, "both", kind=kind, batch=5)
        assert [judgement.id for judgement in found] == [case.id for case in cases]
        for judgement, case in zip(found, cases, strict=True):
            assert len(judgement.pairs) == (2 if case.comparable and kind != "prm" else 0)
            assert_like(judgement, case, kind, reference)

    def test_neighbours_do_not_matter(self, tiny_model_dir: Path, either: None) -> None:
        cases = varied(groups(4, 3))
        together = judged(tiny_model_dir, cases, "both")
        close(judged(tiny_model_dir, cases, "both", batch=1), together)
        backwards = judged(tiny_model_dir, cases[::-1], "both", batch=7)
        close(backwards[::-1], together)

    def test_an_order_is_the_one_that_was_asked_for(self, tiny_model_dir: Path) -> None:
        cases = groups(2, 2, "en")
        both = judged(tiny_model_dir, cases, "both")
        for orders, place in (("candidate_first", 0), ("reference_first", 1)):
            for one, two in zip(judged(tiny_model_dir, cases, orders), both, strict=True):  # type: ignore[arg-type]
                assert len(one.pairs) == 1
                assert one.pairs[0].candidate_first is (place == 0)
                assert one.pairs[0].p == pytest.approx(two.pairs[place].p, abs=1e-5)

    def test_a_template_that_writes_the_last_answer_otherwise(self, tiny_model_dir: Path, tmp_path: Path) -> None:
        """As those do that keep thoughts in the last answer only: what was encoded is not what follows."""
        thought = "{% if loop.last and message['role'] == 'assistant' %}<think>none</think>{% endif %}"
        folder = templated(tiny_model_dir, tmp_path, "\n" + thought, "\n")
        cases = groups(1, 2, "en")
        judge = LocalJudge(str(folder), device="cpu")
        assert len(judge.load().rendering.options("history", "en").trie.way) > 0
        changed = Reference(str(folder))
        for judgement, case in zip(asyncio.run(judge.judge(cases)), cases, strict=True):
            assert_like(judgement, case, "unified", changed)

    def test_an_answer_that_begins_inside_a_token(
        self, tiny_model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The question ends in a space, and the tokenizer has one token for the space and the next word."""
        words = {"en": {True: "a truth.", False: "no truth."}}
        monkeypatch.setattr(rendering, "STEP_WORDS", words)
        monkeypatch.setattr("tests.reward.reference.STEP_WORDS", words)
        folder = templated(tiny_model_dir, tmp_path, "\n{{ ' ' if message['role'] == 'assistant' }}", "\n{{ ' ' }}")
        cases = groups(1, 2, "en")
        judge = LocalJudge(str(folder), device="cpu")
        assert judge.load().rendering.options("history", "en").back == 1
        changed = Reference(str(folder))
        for judgement, case in zip(asyncio.run(judge.judge(cases)), cases, strict=True):
            assert_like(judgement, case, "unified", changed)

    def test_reasons_are_for_people_and_change_nothing(self, tiny_model_dir: Path) -> None:
        cases = groups(1, 3, "en")
        plain = judged(tiny_model_dir, cases)
        explained = judged(tiny_model_dir, cases, explain=True)
        close(explained, plain)
        reasons = [step.reason for judgement in explained for step in judgement.steps]
        assert all(reasons)
        assert all(judgement.pairs[0].reason for judgement in explained)
        assert not any(step.reason for judgement in plain for step in judgement.steps)


def templated(model: Path, folder: Path, head: str, waiting: str) -> Path:
    """The model with another template: what stands between a role and its message, and before an open answer."""
    shutil.copytree(model, folder / "model")
    (folder / "model" / "chat_template.jinja").write_text(
        "{% for message in messages %}<|im_start|>{{ message['role'] }}" + head + "{{ message['content'] }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant" + waiting + "{% endif %}"
    )
    return folder / "model"
