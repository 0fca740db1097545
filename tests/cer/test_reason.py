"""Candidates through a real HTTP endpoint: the contract kept, several generators, what falls short, pictures."""

from __future__ import annotations

import asyncio
import base64
import json
from argparse import Namespace
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.endpoints import scripted
from tests.endpoints.answers import contract, text_of
from tests.endpoints.process import ScriptedEndpoint

from compeer.cer.item import Item, PastTurn
from compeer.cer.reason import STAGE, reason
from compeer.dialogue import read_rows, write_rows
from compeer.errors import UserError
from compeer.models import open_model, run
from compeer.models.endpoint import Endpoint
from compeer.models.request import Answer, Model, Patience, Request
from compeer.pipeline.runner import run_stage
from compeer.pipeline.stage import Reject, Tools
from compeer.pipeline.work import ModelSpec
from compeer.reasoning import parse, render
from compeer.reasoning.ontology import Language

Answerer = Callable[[dict[str, Any]], str]
HISTORY = (
    PastTurn("seeker", "i failed the exam again"),
    PastTurn("supporter", "Again. How many times is that?"),
    PastTurn("seeker", "three. my parents don't know"),
)
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def item(history: tuple[PastTurn, ...] = HISTORY, language: Language = "en", name: str = "d#2") -> Item:
    return Item(
        id=name, dialogue="d", source="test", licence="CC0 1.0", language=language, round=2, history=history,
        reference="What would happen if they knew?", trace={"import": "line 3"},
    )  # fmt: skip


@asynccontextmanager
async def answering(answer: Answerer, **script_options: Any) -> AsyncIterator[str]:
    script = scripted.Script(Namespace(**(vars(scripted.parser().parse_args([])) | script_options)))
    script.answer = answer
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", script.chat)
    app.router.add_get("/v1/models", script.models)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


def reasoned(
    one: Item,
    answer: Answerer = contract,
    roles: tuple[str, ...] = ("generator",),
    seed: int = 0,
    script: dict[str, Any] | None = None,
    wrap: Callable[[Model], Model] = lambda model: model,
    **options: Any,
) -> tuple[Any, list[dict[str, Any]]]:
    """What the stage makes of an item, and every request it sent."""
    asked: list[dict[str, Any]] = []

    def respond(body: dict[str, Any]) -> str:
        asked.append(body)
        return answer(body)

    async def go() -> Any:
        async with answering(respond, **(script or {})) as base_url:
            models = {role: wrap(open_model(f"openai:{role}", base_url=base_url)) for role in roles}
            try:
                return await reason(one, Tools(models=models, seed=seed, options=options))
            finally:
                for model in models.values():
                    await model.close()

    return run(go()), asked


def test_an_item_with_its_candidate() -> None:
    made, asked = reasoned(item())
    assert isinstance(made, Item)
    assert msgspec.structs.replace(made, candidate=None, trace=item().trace) == item(), "nothing else has changed"
    candidate = made.candidate
    assert candidate is not None and candidate.reasoning is not None and candidate.raw is not None
    assert candidate.generator.startswith("openai:generator@http://127.0.0.1")
    assert parse(candidate.raw).complete
    assert render(candidate.reasoning, candidate.response) == candidate.raw
    assert made.trace["import"] == "line 3" and made.trace["reason"]["role"] == "generator"
    (body,) = asked
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "user"]
    assert made.reference not in json.dumps(body), "the reference is never shown"
    assert (body["temperature"], body["seed"]) == (0.7, made.trace["reason"]["seed"])


def test_the_same_seed_gives_the_same_item() -> None:
    def generic(one: Any) -> Any:  # the port differs from server to server
        return msgspec.structs.replace(one, candidate=msgspec.structs.replace(one.candidate, generator=""))

    first, again, other = (generic(reasoned(item(), seed=seed)[0]) for seed in (1, 1, 2))
    assert first == again
    assert first.trace != other.trace
    elsewhere, _ = reasoned(item(name="d#3"), seed=1)
    assert elsewhere.trace["reason"]["seed"] != first.trace["reason"]["seed"]


def test_chinese() -> None:
    history = (PastTurn("seeker", "又没考上，三次了"),)
    made, asked = reasoned(item(history, "zh"))
    assert isinstance(made, Item) and made.candidate and made.candidate.reasoning
    assert made.candidate.reasoning.language == "zh"
    assert "阶段" in asked[0]["messages"][0]["content"]


@pytest.mark.parametrize(("owner", "field"), [("vllm", "structured_outputs"), ("llamacpp", "grammar")])
def test_the_grammar_goes_along_where_the_server_knows_one(owner: str, field: str) -> None:
    _, asked = reasoned(item(), script={"owned_by": owner})
    assert field in asked[0]
    _, asked = reasoned(item(), script={"owned_by": owner}, grammar=False)
    assert field not in asked[0]


def test_several_generators_side_by_side() -> None:
    made, asked = reasoned(item(), roles=("generator", "generator-2", "judge"))
    assert [one.id for one in made] == ["d#2@generator", "d#2@generator-2"]
    assert [one.candidate.generator.partition("@")[0] for one in made] == ["openai:generator", "openai:generator-2"]
    assert {body["model"] for body in asked} == {"generator", "generator-2"}
    assert len({body["seed"] for body in asked}) == 2
    assert made[0].reference == made[1].reference and made[0].history == made[1].history


def test_incomplete_output_is_asked_for_again_and_then_rejected() -> None:
    def halves(body: dict[str, Any]) -> str:
        return contract(body).replace("<emotion>", "")

    rejected, asked = reasoned(item(), halves)
    assert isinstance(rejected, Reject) and rejected.reason == "incomplete"
    assert "emotion" in rejected.detail
    assert len(asked) == 3 and len({body["seed"] for body in asked}) == 3
    assert isinstance(rejected.row, Item) and rejected.row.candidate
    assert rejected.row.candidate.raw and rejected.row.candidate.reasoning is None
    _, asked = reasoned(item(), halves, attempts=1)
    assert len(asked) == 1

    answers = iter([halves, contract])
    made, asked = reasoned(item(), lambda body: next(answers)(body))
    assert isinstance(made, Item) and len(asked) == 2


def test_one_generator_that_falls_short_does_not_take_the_other_with_it() -> None:
    def half(body: dict[str, Any]) -> str:
        return "Hello." if body["model"] == "generator-2" else contract(body)

    made, _ = reasoned(item(), half, roles=("generator", "generator-2"))
    assert isinstance(made[0], Item)
    assert isinstance(made[1], Reject) and made[1].id == "d#2@generator-2"


def test_a_silent_generator_is_a_row_without_an_answer() -> None:
    async def go() -> Any:
        async with answering(contract) as base_url:
            impatient = Patience(attempts=1, timeout=1)
            models: dict[str, Model] = {
                "generator": Endpoint("one", base_url),
                "generator-2": Endpoint("two", "http://127.0.0.1:9/v1", patience=impatient),
            }
            try:
                return await reason(item(), Tools(models=models))
            finally:
                for model in models.values():
                    await model.close()

    there, silent = run(go())
    assert isinstance(there, Item)
    assert isinstance(silent, Reject) and silent.reason == "no-answer" and silent.row == item()


def test_without_a_history_or_a_generator() -> None:
    rejected, asked = reasoned(item(()))
    assert isinstance(rejected, Reject) and rejected.reason == "no-history" and not asked
    with pytest.raises(UserError, match="'generator'"):
        asyncio.run(reason(item(), Tools()))


def test_the_oldest_turns_are_left_out() -> None:
    history = tuple(
        PastTurn("seeker" if n % 2 == 0 else "supporter", f"turn {n} " + "word " * 8) for n in range(21)
    )  # ten words a turn
    made, asked = reasoned(item(history), max_words=50)
    assert [text_of(message)[:7] for message in asked[0]["messages"][1:]] == [f"turn {n}" for n in range(16, 21)]
    assert made.history == history, "the item keeps them all"
    assert made.trace["reason"]["turns_left_out"] == 16


def test_pictures_go_along(tmp_path: Path) -> None:
    picture = tmp_path / "face.png"
    picture.write_bytes(PNG)
    history = (PastTurn("seeker", "look at me", (str(picture),)),)
    made, asked = reasoned(item(history))
    assert isinstance(made, Item)
    image, words = asked[0]["messages"][1]["content"]
    assert image["image_url"]["url"] == "data:image/png;base64," + base64.b64encode(PNG).decode()
    assert words == {"type": "text", "text": "look at me"}
    assert "images_left_out" not in made.trace["reason"]


class Blind:
    """A model that takes no pictures."""

    sees = False

    def __init__(self, home: Model) -> None:
        self.home, self.name = home, home.name

    async def ask(self, request: Request) -> Answer:
        return await self.home.ask(request)

    def stream(self, request: Request) -> AsyncIterator[str]:
        return self.home.stream(request)

    def rendered(self, request: Request) -> bytes:
        return self.home.rendered(request)

    async def close(self) -> None:
        await self.home.close()


def test_a_model_without_eyes_gets_the_words(tmp_path: Path) -> None:
    history = (PastTurn("seeker", "look at me", (str(tmp_path / "gone.png"),)),)
    made, asked = reasoned(item(history), wrap=Blind)
    assert asked[0]["messages"][1]["content"] == "look at me"
    assert made.trace["reason"]["images_left_out"] == 1
    assert made.history == history


def test_through_the_runner(tmp_path: Path) -> None:
    items = [item(name=f"d{n}#2") for n in range(20)] + [item((PastTurn("seeker", "又没考上"),), "zh", name="z#1")]
    write_rows(tmp_path / "items.jsonl", items)
    with ScriptedEndpoint(answer="contract", broken_content_every=5, by="hash") as endpoint:
        spec = ModelSpec("openai:scripted", endpoint.base_url)
        made = run_stage(
            STAGE,
            tmp_path / "items.jsonl",
            tmp_path / "out.jsonl",
            Tools(seed=3, options={"temperature": 1.0}),
            model_specs={"generator": spec, "generator-2": spec},
        )
    rows = list(read_rows(tmp_path / "out.jsonl", Item))
    assert len(rows) + sum(made.counts.rejected.values()) == 42
    assert len(rows) > 35 and all(row.candidate and row.candidate.reasoning for row in rows)
    assert rows[0].trace["reason"]["temperature"] == 1.0
