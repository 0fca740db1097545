"""Conversations keep their slots: what was read once is not read again, whoever else talks in between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.test_lora_gguf import adapted

from compeer.models.embedded import Embedded
from compeer.models.llama_server import Prompt, Slots
from compeer.models.request import Answer, ModelError, Request
from compeer.models.shipped import adapter as shipped_adapter
from compeer.models.weighing import weigh
from compeer.models.weights import SMALL

SYSTEM = {"role": "system", "content": "Listen first, and answer in plain words. " * 40}
QUESTION = {"role": "system", "content": "Is this person safe? Answer yes or no."}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def reply(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


class Recorder:
    """A server that only notes what is asked of it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def complete(self, body: dict[str, Any], deliver: Any) -> None:
        self.done.append(f"read head in {body['id_slot']}")

    def request(self, method: str, path: str, body: dict[str, Any]) -> None:
        self.done.append(path.removeprefix("/slots/").replace("?action=", " "))


class TestChoice:
    HEAD = "instruction " * 60

    def slot(self, slots: Slots, text: str, server: Any = None) -> int:
        said = self.HEAD + text
        with slots.taken(server or Recorder(), Prompt(said + "Supporter:", self.HEAD, said)) as found:
            return found

    def test_a_conversation_comes_back_to_its_slot(self) -> None:
        slots = Slots(3)
        texts = ["My cat died. ", "I failed the exam. ", "We are moving. "]
        first = [self.slot(slots, text) for text in texts]
        assert sorted(first) == [0, 1, 2]
        for turn in range(3):
            for number in (2, 0, 1):
                texts[number] += f"And then, {turn}. " * 20
                assert self.slot(slots, texts[number]) == first[number]

    def test_a_new_one_takes_the_slot_that_was_used_longest_ago(self) -> None:
        slots = Slots(2)
        first, second = self.slot(slots, "Ann. " * 200), self.slot(slots, "Bob. " * 200)
        assert self.slot(slots, "Ann. " * 210) == first
        assert self.slot(slots, "Cem. " * 200) == second

    def test_the_same_greeting_is_not_the_same_conversation(self) -> None:
        slots = Slots(2)
        first = self.slot(slots, "Hi. " + "My cat died. " * 100)
        assert self.slot(slots, "Hi. " + "I failed. " * 100) != first

    def test_a_taken_slot_is_left_alone(self) -> None:
        slots = Slots(2)
        prompt = Prompt("x" * 900, said="x" * 900)
        with slots.taken(Recorder(), prompt) as first, slots.taken(Recorder(), prompt) as second:  # type: ignore[arg-type]
            assert first != second

    def test_the_instruction_is_read_once_and_restored_into_the_next_slot(self) -> None:
        slots, server = Slots(2), Recorder()
        for text in ("One. ", "Two, quite different. " * 60, "One. And more. "):
            self.slot(slots, text, server)
        assert server.done == ["read head in 0", "0 save", "1 restore"]

    def test_a_question_behind_a_conversation_does_not_part_it(self) -> None:
        slots, said = Slots(2), self.HEAD + "My cat died."
        for text in (said + "Is this person safe?", said + "Supporter:", said + "Supporter: Oh. Person: Yes."):
            with slots.taken(Recorder(), Prompt(text, self.HEAD, said)) as found:  # type: ignore[arg-type]
                assert found == 0
        with slots.taken(Recorder(), Prompt(self.HEAD + "My dog", self.HEAD, self.HEAD + "My dog")) as found:  # type: ignore[arg-type]
            assert found == 1, "short as both are"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, one_thread: None) -> Iterator[Embedded]:
    """The small model with three slots."""
    monkeypatch.delenv("COMPEER_WEIGHTS", raising=False)
    opened = Embedded(slots=3, context=6144, weights=SMALL)
    yield opened
    asyncio.run(opened.close())


class TestReading:
    def test_later_turns_read_their_new_text_alone(self, model: Embedded) -> None:
        """Three people in turn; a question about each before the reply; the instruction has 320 tokens."""

        async def scenario() -> tuple[list[Answer], list[Answer]]:
            talks = [[SYSTEM, user(f"{name} is ill, and I am worried. " * 8)] for name in ("Ann", "Bob", "Cem")]
            rounds: list[list[Answer]] = [[], []]
            for answers in rounds:
                for talk in talks:
                    shares = await weigh(model, [*talk, QUESTION], ["yes", "no"])
                    assert sum(shares.values()) == pytest.approx(1.0) and set(shares) == {"yes", "no"}
                    answers.append(await model.ask(Request(messages=talk, max_tokens=4, temperature=0.0)))
                    talk += [reply("I see."), user("It has not become better since.")]
            return rounds[0], rounds[1]

        first, second = asyncio.run(scenario())
        for answer in (*first, *second):
            read = answer.usage.prompt - answer.usage.cached
            assert read <= 4, "the question had read all of it before"
        assert all(answer.usage.prompt > 350 for answer in first)

    def test_without_a_question_too(self, model: Embedded) -> None:
        async def scenario() -> list[int]:
            talks = [[SYSTEM, user(f"{name} is ill. " * 30)] for name in ("Ann", "Bob", "Cem")]
            read = []
            for _ in range(2):
                for talk in talks:
                    usage = (await model.ask(Request(messages=talk, max_tokens=4, temperature=0.0))).usage
                    read.append(usage.prompt - usage.cached)
                    talk += [reply("I see."), user("It has not become better.")]
            return read

        read = asyncio.run(scenario())
        assert max(read[1:3]) < 200, "the instruction was read by the first alone"
        assert max(read[3:]) < 40, read

    def test_answers_that_cannot_be_told_apart(self, model: Embedded) -> None:
        with pytest.raises(ModelError, match="'yes' is the beginning of another one"):
            asyncio.run(weigh(model, [SYSTEM, user("Hi."), QUESTION], ["yes", "yes indeed", "no"]))

    def test_nothing_that_a_person_wrote_is_saved(self, model: Embedded) -> None:
        asyncio.run(model.ask(Request(messages=[SYSTEM, user("My secret is a secret.")], max_tokens=2)))
        folder = Path(model.load()._states.name)  # type: ignore[union-attr]
        saved = list(folder.iterdir())
        assert len(saved) == 1, "the instruction's state and no other"
        asyncio.run(model.close())
        assert not folder.exists()


@pytest.mark.parametrize("second", [False, True])
def test_with_and_without_the_adapter_a_conversation_is_read_apart(
    second: bool,
    tiny_model_dir: Path,
    tiny_gguf: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    one_thread: None,
) -> None:
    """What was read with an adapter is no prefix for an answer without it, or with the second one, which is for plain
    replies; each way keeps its own."""
    monkeypatch.setenv("COMPEER_CACHE", str(tmp_path / "cache"))
    adapted(tiny_model_dir).save_pretrained(tmp_path / "adapter")
    replies = None
    if second:
        replies = tmp_path / "replies"
        adapted(tiny_model_dir, size=0.5).save_pretrained(replies)
    talk = [SYSTEM, user("I am worried. " * 20)]

    async def scenario() -> tuple[list[Answer], str]:
        others = {"replies": replies} if replies else {}
        both = Embedded(tmp_path / "adapter", others, weights=tiny_gguf, slots=1, context=8192)
        plain = Embedded(replies, weights=tiny_gguf, slots=1, context=8192)
        base = Embedded(None, weights=tiny_gguf, slots=1, context=8192)
        ways = [Request(messages=talk, max_tokens=12, temperature=0.0, adapter=way) for way in (True, False)] * 2
        bare = Request(messages=talk, max_tokens=12, temperature=0.0, adapter=None)
        try:
            assert both.rendered(ways[0]) != both.rendered(ways[1]), "the cache tells them apart"
            answers = [await both.ask(way) for way in ways]
            assert (await both.ask(bare)).text == (await base.ask(bare)).text
            return answers, (await plain.ask(ways[0])).text
        finally:
            for one in (both, plain, base):
                await one.close()

    (taught, untaught, taught_again, untaught_again), alone = asyncio.run(scenario())
    assert taught.text == taught_again.text != untaught.text == untaught_again.text == alone
    assert untaught.usage.cached == 0, "nothing of the other way was used"
    assert all(one.usage.prompt - one.usage.cached <= 2 for one in (taught_again, untaught_again))


def test_the_instruction_is_read_once_without_the_adapter_too(one_thread: None) -> None:
    """A slot forgets what it holds when its adapter is switched; the instruction is put there after that."""

    async def scenario() -> list[Answer]:
        model = Embedded(shipped_adapter("supporter", SMALL), weights=SMALL, slots=2, context=4096)
        try:
            talks = [[SYSTEM, user(text)] for text in ("My cat is ill.", "I failed the exam.")]
            return [await model.ask(Request(messages=talk, max_tokens=1, adapter=False)) for talk in talks]
        finally:
            await model.close()

    for answer in asyncio.run(scenario()):
        assert answer.usage.prompt > 300 and answer.usage.prompt - answer.usage.cached < 40
