"""The local judge against one that encodes every turn from scratch, with tiny random models."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from tests.reward.attacks import ATTACKS
from tests.reward.groups import gold_cases, groups, varied, with_pictures
from tests.reward.reference import Reference

from compeer.cer.item import QUESTIONS
from compeer.errors import UserError
from compeer.reward.case import Case, shortened
from compeer.reward.homes import ragged, rendering, walk
from compeer.reward.homes.local import LocalJudge
from compeer.reward.judge import Judgement, Orders
from compeer.reward.verdict import Kind

NEAR = 1e-4


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows at a time as on a GPU, and padded as there."""
    monkeypatch.setattr(walk, "_ON_CPU", 64)
    monkeypatch.setattr(ragged, "use_ragged", lambda model: False)


@pytest.fixture(params=["padded", "ragged"])
def either(request: pytest.FixtureRequest) -> None:
    """As on a GPU, then as on a CPU."""
    if request.param == "padded":
        request.getfixturevalue("wide")


@pytest.fixture(scope="module")
def reference(tiny_model_dir: Path) -> Reference:
    return Reference(str(tiny_model_dir))


@pytest.fixture(scope="module")
def seeing(tiny_vision_dir: Path) -> Reference:
    return Reference(str(tiny_vision_dir))


@pytest.fixture
def photo(tmp_path: Path) -> str:
    return painted(tmp_path / "face.png", (200, 120, 90), (84, 112))


def painted(path: Path, colour: tuple[int, int, int], size: tuple[int, int]) -> str:
    from PIL import Image

    image = Image.new("RGB", size, colour)
    image.putpixel((3, 5), (0, 255, 0))
    image.save(path)
    return str(path)


def judged(folder: Path | str, cases: Sequence[Case], orders: Orders = "one", **options: Any) -> list[Judgement]:
    return asyncio.run(LocalJudge(str(folder), device="cpu", **options).judge(cases, orders=orders))


def assert_like(judgement: Judgement, case: Case, kind: Kind, reference: Reference) -> None:
    """Every verdict is the reference's, with its probability, and there is no verdict more."""
    assert judgement.failure is None
    shown = [pair.candidate_first for pair in judgement.pairs]
    expected: dict[Any, dict[Any, float]] = {}
    for first in shown or [True]:
        expected |= reference.judge(case, kind, first)
    for question, step in zip(QUESTIONS[:3], judgement.steps, strict=True):
        if question in expected:
            assert step.p == pytest.approx(expected[question][True], abs=NEAR), question
            assert step.value is (expected[question][True] >= 0.5)
        else:
            assert (step.value, step.p) == (None, None)
    assert ("preference", True) in expected or ("preference", False) in expected or not shown
    for pair in judgement.pairs:
        by_origin = expected["preference", pair.candidate_first]
        assert pair.p == pytest.approx(by_origin, abs=NEAR)
        assert pair.preference == max(by_origin, key=lambda name: by_origin[name])


def close(one: Sequence[Judgement], other: Sequence[Judgement], by: float = 1e-5) -> None:
    """The same verdicts, the same probabilities up to rounding."""
    for mine, theirs in zip(one, other, strict=True):
        assert mine.id == theirs.id
        assert mine.failure is None
        assert [step.value for step in mine.steps] == [step.value for step in theirs.steps]
        assert [step.p for step in mine.steps] == [pytest.approx(step.p, abs=by) for step in theirs.steps]
        assert [pair.preference for pair in mine.pairs] == [pair.preference for pair in theirs.pairs]
        assert [pair.p for pair in mine.pairs] == [pytest.approx(pair.p, abs=by) for pair in theirs.pairs]


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

    def test_answers_that_part_in_several_places(
        self, tiny_model_dir: Path, reference: Reference, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        words = {"en": {"first": "Reply one.", "second": "Reply two.", "both": "All good.", "neither": "All bad."}}
        monkeypatch.setattr(rendering, "PAIR_WORDS", words)
        monkeypatch.setattr("tests.reward.reference.PAIR_WORDS", words)
        judge = LocalJudge(str(tiny_model_dir), kind="orm", device="cpu")
        assert len(judge.load().rendering.pair("en").trie.ways) == 2
        cases = groups(2, 2, "en")
        for judgement, case in zip(asyncio.run(judge.judge(cases, orders="both")), cases, strict=True):
            assert_like(judgement, case, "orm", reference)

    def test_a_template_that_writes_the_last_answer_otherwise(self, tiny_model_dir: Path, tmp_path: Path) -> None:
        """As those do that keep thoughts in the last answer only: what was encoded is not what follows."""
        thought = "{% if loop.last and message['role'] == 'assistant' %}<think>none</think>{% endif %}"
        folder = templated(tiny_model_dir, tmp_path, "\n" + thought, "\n")
        cases = groups(1, 2, "en")
        judge = LocalJudge(str(folder), device="cpu")
        assert len(judge.load().rendering.steps("en").trie.ways[0]) > 0
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
        assert judge.load().rendering.steps("en").back == 1
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


class TestSharing:
    def test_a_group_costs_a_fraction_of_separate_turns(self, tiny_model_dir: Path, reference: Reference) -> None:
        """64 histories x 4 candidates, counted in tokens against four turns that each read all that came before."""
        cases = groups(64, 4)
        judge = LocalJudge(str(tiny_model_dir), device="cpu", batch=32)
        found = asyncio.run(judge.judge(cases))
        rendered = judge.load().rendering
        separate = 0
        for case, judgement in zip(cases, found, strict=True):
            separate += turns_apart(rendered, case, judgement)
        assert sum(judgement.tokens for judgement in found) == judge.tokens
        assert judge.tokens <= 0.4 * separate, f"{judge.tokens / separate:.1%}"
        before = reference.tokens
        for number in range(0, len(cases), 64):
            assert_like(found[number], cases[number], "unified", reference)
        counted = sum(turns_apart(rendered, cases[n], found[n]) for n in range(0, len(cases), 64))
        assert reference.tokens - before == counted, "and that is what a judge without a cache encodes"

    def test_the_second_order_costs_only_its_pair(self, tiny_model_dir: Path) -> None:
        cases = groups(4, 4, "en")
        one = sum(judgement.tokens for judgement in judged(tiny_model_dir, cases))
        both = sum(judgement.tokens for judgement in judged(tiny_model_dir, cases, "both"))
        assert one < both < 1.4 * one

    def test_a_prm_reads_its_history_once(self, tiny_model_dir: Path) -> None:
        cases = groups(4, 4, "en")
        unified = sum(judgement.tokens for judgement in judged(tiny_model_dir, cases))
        prm = sum(judgement.tokens for judgement in judged(tiny_model_dir, cases, kind="prm"))
        orm = sum(judgement.tokens for judgement in judged(tiny_model_dir, cases, kind="orm"))
        assert unified < prm + orm

    def test_the_instruction_is_kept_from_call_to_call(self, tiny_model_dir: Path) -> None:
        cases = groups(1, 2, "en")
        judge = LocalJudge(str(tiny_model_dir), device="cpu")

        async def twice() -> tuple[list[Judgement], list[Judgement]]:
            return await judge.judge(cases), await judge.judge(cases)

        first, second = asyncio.run(twice())
        close(second, first)
        spared = sum(j.tokens for j in first) - sum(j.tokens for j in second)
        assert spared == len(judge.load().rendering.opening(system_of(cases[0])))


def turns_apart(rendered: rendering.Rendering, case: Case, judgement: Judgement) -> int:
    """Tokens of the four questions, each asked in a request of its own with all that came before it."""
    from compeer.reward.conversation import messages, threads
    from compeer.reward.verdict import STEP_WORDS

    (thread,) = threads(case, "unified", judgement.pairs[0].candidate_first)
    answers = [STEP_WORDS[case.language][step.value is True] for step in judgement.steps]
    return sum(len(tokens) for tokens in rendered.tokens([messages(thread, answers[:n]) for n in range(4)]))


def system_of(case: Case) -> str:
    from compeer.reward.conversation import system_prompt

    return system_prompt("unified", case.language)


class TestPictures:
    def test_cases_with_and_without_pictures_in_one_run(
        self, tiny_vision_dir: Path, seeing: Reference, photo: str, tmp_path: Path, wide: None
    ) -> None:
        other = painted(tmp_path / "other.png", (10, 30, 200), (140, 56))
        first, second, third = groups(1, 2, "en"), groups(1, 2, "zh", seed=2), groups(2, 1, "en", seed=3)
        cases = [
            *(with_pictures(case, photo, other) for case in first),
            *second,
            with_pictures(third[0], other),
            third[1],
        ]
        found = judged(tiny_vision_dir, cases, "both")
        for judgement, case in zip(found, cases, strict=True):
            assert_like(judgement, case, "unified", seeing)
        unseen = judged(tiny_vision_dir, first, "both")
        assert unseen[0].steps[0].p != pytest.approx(found[0].steps[0].p, abs=1e-3), "the pictures matter"

    @pytest.mark.parametrize("kind", ["prm", "orm"])
    def test_the_baselines_see_them_too(self, kind: Kind, tiny_vision_dir: Path, seeing: Reference, photo: str) -> None:
        case = with_pictures(gold_cases("en")[5], photo)
        (judgement,) = judged(tiny_vision_dir, [case], "both", kind=kind)
        assert_like(judgement, case, kind, seeing)

    def test_a_picture_is_encoded_once_for_a_group(self, tiny_vision_dir: Path, photo: str) -> None:
        cases = [with_pictures(case, photo) for case in groups(1, 4, "en")]
        without = sum(judgement.tokens for judgement in judged(tiny_vision_dir, groups(1, 4, "en")))
        extra = sum(judgement.tokens for judgement in judged(tiny_vision_dir, cases)) - without
        assert 0 < extra < 2 * (84 // 28) * (112 // 28) + 8

    def test_a_lost_picture_fails_its_own_group_alone(self, tiny_vision_dir: Path, photo: str, tmp_path: Path) -> None:
        good, bad = groups(1, 2, "en"), groups(1, 2, "en", seed=5)
        cases = [
            *good,
            *(with_pictures(case, str(tmp_path / "lost.png")) for case in bad),
            with_pictures(good[0], photo),
        ]
        found = judged(tiny_vision_dir, cases)
        assert ["lost.png" in (judgement.failure or "") for judgement in found] == [False, False, True, True, False]
        assert found[2].total == -3  # nothing but the format counts
        assert all(step.value is not None for judgement in (found[0], found[1], found[4]) for step in judgement.steps)

    def test_a_judge_without_eyes_says_so(self, tiny_model_dir: Path, photo: str) -> None:
        case = gold_cases("en")[0]
        blind, seen = judged(tiny_model_dir, [with_pictures(case, photo), case])
        assert "cannot see images" in (blind.failure or "")
        assert seen.failure is None


class TestLength:
    def test_a_long_history_loses_its_oldest_turns_and_no_more(self, tiny_model_dir: Path) -> None:
        case = max(gold_cases("en"), key=lambda case: len(case.history))
        judge = LocalJudge(str(tiny_model_dir), device="cpu")
        limit = longest(judge, case) - 40
        expected = next(less for less in (shortened(case, n) for n in range(9)) if longest(judge, less) <= limit)
        assert 0 < expected.left_out < len(case.history) - 1
        close(judged(tiny_model_dir, [case], max_length=limit), judged(tiny_model_dir, [expected]))

    def test_a_reply_without_end_is_cut(self, tiny_model_dir: Path) -> None:
        case = msgspec.structs.replace(gold_cases("en")[0], reply="You matter. " * 3000)
        (found,) = judged(tiny_model_dir, [case], max_length=2500)
        assert found.failure is None
        assert found.tokens <= 2500
        assert found.preference is not None

    def test_one_long_case_does_not_shorten_its_neighbours(self, tiny_model_dir: Path) -> None:
        cases = groups(1, 3, "en")
        long = msgspec.structs.replace(cases[1], reply="You matter. " * 3000)
        alone = judged(tiny_model_dir, [cases[0], cases[2]], max_length=2500)
        among = judged(tiny_model_dir, [cases[0], long, cases[2]], max_length=2500)
        close([among[0], among[2]], alone)

    def test_no_room_at_all_is_a_failure_in_words(self, tiny_model_dir: Path) -> None:
        (found,) = judged(tiny_model_dir, [gold_cases("en")[0]], max_length=100)
        assert "no room" in (found.failure or "")


def longest(judge: LocalJudge, case: Case) -> int:
    """Tokens of the conversation with the longest answers."""
    from compeer.reward.conversation import messages, threads

    (thread,) = threads(case, "unified", True)
    answers = ["False."] * 3 + ["The two sentences are almost good."]
    return len(judge.load().rendering.tokens([messages(thread, answers)], waiting=False)[0])


class TestFolder:
    def test_the_kind_is_written_beside_the_weights(self, tiny_model_dir: Path, tmp_path: Path) -> None:
        folder = copied(tiny_model_dir, tmp_path / "run" / "model", {"kind": "orm", "base": "x", "labels": ["silver"]})
        for name in (folder, tmp_path / "run"):
            judge = LocalJudge(str(name), device="cpu")
            assert judge.kind == "orm"
            (found,) = asyncio.run(judge.judge(gold_cases("en")[:1]))
            assert [step.value for step in found.steps] == [None] * 3
            assert len(found.pairs) == 1
        assert LocalJudge(str(folder), kind="prm").kind == "prm"
        assert LocalJudge(str(tiny_model_dir)).kind == "unified"

    def test_an_adapter_is_put_on_its_base(self, tiny_model_dir: Path, tmp_path: Path) -> None:
        adapter = tuned(tiny_model_dir, tmp_path / "adapter", {"kind": "unified", "base": str(tiny_model_dir)})
        cases = list(gold_cases("en")[:2])
        plain = judged(tiny_model_dir, cases)
        trained = judged(adapter, cases)
        close(judged(f"{tiny_model_dir}", cases, adapter=str(adapter)), trained)
        assert trained[0].steps[0].p != pytest.approx(plain[0].steps[0].p, abs=1e-3)
        (adapter / "judge.json").unlink()
        close(judged(adapter, cases), trained)

    def test_a_damaged_description_is_named(self, tiny_model_dir: Path, tmp_path: Path) -> None:
        folder = copied(tiny_model_dir, tmp_path / "model", {"kind": "arbiter"})
        with pytest.raises(UserError, match=r"judge\.json does not describe a judge"):
            LocalJudge(str(folder))

    def test_a_model_that_cannot_be_loaded_is_an_error_and_not_a_verdict(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="cannot be loaded"):
            judged(tmp_path, gold_cases("en")[:1])

    def test_identity_is_in_the_files_and_not_in_their_place(self, tiny_model_dir: Path, tmp_path: Path) -> None:
        def identity(folder: Path, **options: Any) -> dict[str, Any]:
            return dict(asyncio.run(LocalJudge(str(folder), **options).identity()))

        moved = copied(tiny_model_dir, tmp_path / "elsewhere", {"kind": "unified", "revision": "of today"})
        assert identity(moved) == identity(tiny_model_dir)
        assert identity(moved, kind="prm") != identity(moved)
        adapters = [tuned(tiny_model_dir, tmp_path / name, {"base": str(base)}, seed) for name, base, seed in (
            ("a", tiny_model_dir, 1), ("b", moved, 1), ("c", tiny_model_dir, 2))]  # fmt: skip
        first, same, other = (identity(adapter) for adapter in adapters)
        assert first == same != other
        weights = moved / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
        assert identity(moved) != identity(tiny_model_dir)


def copied(model: Path, folder: Path, description: dict[str, Any]) -> Path:
    shutil.copytree(model, folder)
    (folder / "judge.json").write_text(json.dumps(description))
    return folder


def tuned(model: Path, folder: Path, description: dict[str, Any], seed: int = 1) -> Path:
    """A LoRA adapter with random weights."""
    import peft
    from transformers import AutoModelForCausalLM

    base = description.get("base", str(model))
    torch.manual_seed(seed)
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    peft.get_peft_model(AutoModelForCausalLM.from_pretrained(base), config).save_pretrained(folder)
    (folder / "judge.json").write_text(json.dumps(description))
    return folder


class TestLiving:
    def test_other_work_goes_on_meanwhile(self, tiny_model_dir: Path) -> None:
        judge = LocalJudge(str(tiny_model_dir), device="cpu", batch=4)

        async def scenario() -> int:
            await judge.judge(groups(1, 1))  # loaded
            task = asyncio.create_task(judge.judge(groups(16, 4)))
            breaths = 0
            while not task.done():
                await asyncio.sleep(0.001)
                breaths += 1
            assert all(judgement.failure is None for judgement in task.result())
            return breaths

        assert asyncio.run(scenario()) > 50

    def test_several_callers_and_an_impatient_one(self, tiny_model_dir: Path) -> None:
        judge = LocalJudge(str(tiny_model_dir), device="cpu", batch=4)
        cases = groups(16, 4)

        async def scenario() -> tuple[list[list[Judgement]], int]:
            await judge.judge(cases[:1])
            before = judge.tokens
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(judge.judge(cases), 0.05)
            answers = await asyncio.gather(judge.judge(cases[:4]), judge.judge(cases[4:8]))
            spent = judge.tokens - before
            await judge.close()
            return answers, spent

        answers, spent = asyncio.run(scenario())
        found = [judgement for answer in answers for judgement in answer]
        assert [judgement.id for judgement in found] == [case.id for case in cases[:8]]
        each = sum(judgement.tokens for judgement in found) / len(found)
        assert spent < 0.5 * each * len(cases), "nobody waited for the rest"

    def test_attacks_are_judged_like_anything_else(self, tiny_model_dir: Path) -> None:
        case = shortened(gold_cases("en")[0], 99)
        cases = [
            msgspec.structs.replace(case, id=str(number), steps=(attack, case.steps[1], attack), reply=attack + "a")
            for number, attack in enumerate(ATTACKS)
        ]
        for found in judged(tiny_model_dir, cases):
            assert found.failure is None
            assert all(step.value is not None for step in found.steps)
            assert len(found.pairs) == 1

    def test_nothing_to_judge_is_no_work(self, tiny_model_dir: Path) -> None:
        empty = varied(groups(1, 5, "en"))[4]
        assert judged(tiny_model_dir, []) == []
        (found,) = judged(tiny_model_dir, [empty])
        assert (found.total, found.tokens, found.failure) == (-5, 0, None)
