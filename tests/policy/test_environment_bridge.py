"""The environment for other trainers over real HTTP: OpenEnv's sessions, OpenRLHF's remote reward; our rewards exactly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.policy.seeker_server import SeekerServer
from tests.policy.test_bridges import FLAT, GROUPS
from tests.policy.test_composite import Letters, output
from tests.reward.judge_process import JudgeProcess

from compeer.dialogue import write_rows
from compeer.errors import UserError
from compeer.policy.bridges import environment
from compeer.policy.bridges.environment import Support
from compeer.policy.bridges.server import application
from compeer.policy.multi_turn import Talk, TalkReward
from compeer.policy.seeker import SAGE

RECORD = FLAT[0][0]
OUTPUTS = GROUPS[0][1]


@pytest.fixture(scope="module")
def judge() -> Iterator[JudgeProcess]:
    with JudgeProcess() as process:
        yield process


@pytest.fixture(scope="module")
def alone(judge: JudgeProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A configuration of single outputs, with a judge behind a real port."""
    file = tmp_path_factory.mktemp("alone") / "reward.yaml"
    file.write_text(f"variant: urp\ngroup: 4\njudge: {{ spec: '{judge.url}', budget: 30 }}\n")
    environment.opened(str(file)).embedder = Letters()
    yield str(file)
    environment.opened(str(file)).judge.close()  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def talking(judge: JudgeProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, SeekerServer]]:
    """The same with a seeker who answers, behind another port."""
    file = tmp_path_factory.mktemp("talking") / "reward.yaml"
    with SeekerServer() as seeker:
        file.write_text(
            f"variant: urp\ngroup: 2\njudge: {{ spec: '{judge.url}', budget: 30 }}\n"
            f"conversation: {{ seeker: 'openai:seeker', base_url: '{seeker.base_url}', talks: {{ turns: 2 }} }}\n"
        )
        environment.opened(str(file)).embedder = Letters()
        yield str(file), seeker
        environment.opened(str(file)).judge.close()  # type: ignore[union-attr]


@asynccontextmanager
async def served(support: Support, patience: float = 60, keys: tuple[str, ...] = ()) -> AsyncIterator[str]:
    runner = web.AppRunner(application(support, keys, patience), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
        await support.close()


class Client:
    """What OpenEnv's EnvClient sends and reads."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def ask(self, kind: str, **data: Any) -> dict[str, Any]:
        await self.socket.send_json({"type": kind, "data": data})
        answer: dict[str, Any] = await self.socket.receive_json(timeout=60)
        if answer["type"] == "error":
            raise RuntimeError(f"{answer['data']['code']}: {answer['data']['message']}")
        found: dict[str, Any] = answer["data"]
        return found

    async def play(self, outputs: list[str], **reset: Any) -> dict[str, Any]:
        """A whole conversation; its last answer."""
        answer = await self.ask("reset", **reset)
        for text in outputs:
            answer = await self.ask("step", output=text)
            if answer["done"]:
                break
        return answer


def test_a_group_of_sessions_meets_and_gets_our_rewards(alone: str, tmp_path: Path) -> None:
    write_rows(tmp_path / "prompts.jsonl", [{"prompt": [{"role": "user", "content": "I lost my job."}],
                                             "reference": "x", "prompt_record": RECORD}])  # fmt: skip
    support = Support(alone, str(tmp_path / "prompts.jsonl"))
    ours = support.reward.score([GROUPS[0]])

    async def all_of_them() -> list[dict[str, Any]]:
        async with served(support) as url, aiohttp.ClientSession(url) as http:
            clients = [Client(await http.ws_connect("/ws")) for _ in OUTPUTS]
            first = await clients[0].ask("reset", index=0)
            assert first["observation"]["messages"] == [{"role": "user", "content": "I lost my job."}]
            assert first["observation"]["said"] == "I lost my job." and first["done"] is False
            playing = []
            for client, text in zip(clients, OUTPUTS, strict=True):
                playing.append(asyncio.create_task(client.play([text], index=0)))
                while not (playing[-1].done() or (await _seated(support, http, len(playing)))):
                    await asyncio.sleep(0)
            return list(await asyncio.gather(*playing))

    told = asyncio.run(all_of_them())
    assert [one["reward"] for one in told] == pytest.approx([row.reward for row in ours], abs=1e-6)
    assert len({round(one["reward"], 6) for one in told}) > 2 and all(one["done"] for one in told)
    assert [one["observation"]["metadata"]["parts"]["s_in"] for one in told] == [row.s_in for row in ours]


async def _seated(support: Support, http: aiohttp.ClientSession, wanted: int) -> bool:
    """Members of a group sit in the order in which they came, and so does ours."""
    async with http.get("/health") as answer:
        seated: int = (await answer.json())["waiting"]
    return seated >= wanted


def test_a_client_that_plays_one_after_the_other_finds_its_rewards_in_the_state(alone: str) -> None:
    support = Support(alone)
    ours = support.reward.score([GROUPS[0]])

    async def one_by_one() -> list[float | None]:
        async with served(support) as url, aiohttp.ClientSession(url) as http:
            clients = [Client(await http.ws_connect("/ws")) for _ in OUTPUTS]
            for client, text in zip(clients, OUTPUTS, strict=True):
                answer = await client.play([text], prompt_record=RECORD, group="g", wait=False)
                assert answer["done"] and answer["reward"] is None
            found: list[float | None] = [None]
            while None in found:
                found = [(await client.ask("state"))["reward"] for client in clients]
            return found

    assert asyncio.run(one_by_one()) == pytest.approx([row.reward for row in ours], abs=1e-6)


def test_conversations_are_answered_by_the_seeker_and_scored_as_ours(talking: tuple[str, SeekerServer]) -> None:
    config, _ = talking
    support = Support(config)
    asks, tells = output("What happened?"), output("Cheer up.")

    async def group() -> list[dict[str, Any]]:
        async with served(support) as url, aiohttp.ClientSession(url) as http:
            first, second = [Client(await http.ws_connect("/ws")) for _ in range(2)]
            answer = await first.ask("reset", prompt_record=RECORD, wait=False)
            answer = await first.ask("step", output=asks)
            assert (answer["observation"]["said"], answer["done"]) == ("Okay.", False)
            assert (await first.ask("state"))["mood"] == 50
            answer = await first.ask("step", output=tells)
            assert answer["done"] and answer["observation"]["end"] == "turns"
            last = await second.play(["no format"], prompt_record=RECORD)
            assert last["observation"]["end"] == "incomplete"
            states = [await client.ask("state") for client in (first, second)]
            assert states[1]["reward"] == last["reward"]
            return states

    states = asyncio.run(group())
    talks = [support.begin(RECORD), support.begin(RECORD)]

    async def again() -> None:
        support = Support(config)
        for text in (asks, tells):
            await support.answer(talks[0], text)
        await support.answer(talks[1], "no format")
        await support.close()

    asyncio.run(again())
    import msgspec

    ours = TalkReward(support.reward, rules=SAGE)(
        None, ["", ""], [RECORD] * 2, [msgspec.json.encode(talk).decode() for talk in talks]
    )
    assert [state["reward"] for state in states] == pytest.approx(ours, abs=1e-6) and ours[0] != ours[1]
    assert (states[0]["mood"], states[0]["step_count"], states[1]["end"]) == (47, 2, "incomplete")


def test_a_session_that_waits_for_its_group_answers_pings(alone: str) -> None:
    support = Support(alone)

    async def slowly() -> list[float]:
        async with served(support) as url, aiohttp.ClientSession(url) as http:
            # OpenEnv's client closes a connection whose pings are not answered
            clients = [Client(await http.ws_connect("/ws", heartbeat=0.2)) for _ in range(2)]
            first = asyncio.create_task(clients[0].play([OUTPUTS[0]], prompt_record=RECORD, size=2))
            await asyncio.sleep(0.8)
            second = await clients[1].play([OUTPUTS[1]], prompt_record=RECORD, size=2)
            return [(await first)["reward"], second["reward"]]

    ours = support.reward.score([(GROUPS[0][0], OUTPUTS[:2])])
    assert asyncio.run(slowly()) == pytest.approx([row.reward for row in ours], abs=1e-6)


def test_mistakes_are_named_and_the_session_goes_on(alone: str) -> None:
    support = Support(alone)

    async def mistakes() -> None:
        async with served(support, patience=0.05, keys=("secret",)) as url:
            async with aiohttp.ClientSession(url) as http:
                async with http.get("/health") as answer:
                    assert answer.status == 200 and (await answer.json())["status"] == "healthy"
                with pytest.raises(aiohttp.WSServerHandshakeError, match="401"):
                    await http.ws_connect("/ws")
            async with aiohttp.ClientSession(url, headers={"Authorization": "Bearer secret"}) as http:
                async with http.get("/schema") as answer:
                    assert "output" in str((await answer.json())["action"])
                client = Client(await http.ws_connect("/ws"))
                await client.socket.send_str("{")
                assert (await client.socket.receive_json(timeout=60))["data"]["code"] == "INVALID_JSON"
                for kind, data, said in (
                    ("dance", {}, "UNKNOWN_TYPE"),
                    ("step", {"output": "x"}, "reset begins one"),
                    ("reset", {}, "without prompts"),
                    ("reset", {"prompt_record": "{}"}, "no prompt_record"),
                    ("reset", {"size": "four"}, "VALIDATION_ERROR"),
                ):
                    with pytest.raises(RuntimeError, match=said):
                        await client.ask(kind, **data)
                await client.ask("reset", prompt_record=RECORD)
                with pytest.raises(RuntimeError, match="unknown field `charm`"):
                    await client.ask("step", output="x", charm=1)
                # nobody else comes, so patience ends; whoever leaves without a word has given an empty output
                last = await client.ask("step", leave=True)
                assert last["done"] and last["reward"] < 0
                other = Client(await http.ws_connect("/ws"))
                await client.ask("reset", prompt_record=RECORD, group="mixed", size=2, wait=False)
                await client.ask("step", output=OUTPUTS[0])
                await other.ask("reset", prompt_record=FLAT[4][0], group="mixed", size=2)
                with pytest.raises(RuntimeError, match="different prompts"):
                    await other.ask("step", output=OUTPUTS[1])

    asyncio.run(mistakes())


def test_openrlhf_sends_one_output_at_a_time_and_gets_our_rewards(alone: str) -> None:
    support = Support(alone)
    ours = support.reward.score(GROUPS)
    prompt = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"

    async def step() -> list[dict[str, Any]]:
        async with served(support) as url, aiohttp.ClientSession(url) as http:

            async def post(record: str, text: str) -> dict[str, Any]:
                body = {"query": [f"{prompt}{text}<|im_end|>\n"], "prompts": [prompt], "labels": [record]}
                async with http.post("/get_reward", json=body) as answer:
                    assert answer.status == 200, await answer.text()
                    found: dict[str, Any] = await answer.json()
                    return found

            asked: list[asyncio.Task[dict[str, Any]]] = []
            for record, text in FLAT:
                asked.append(asyncio.create_task(post(record, text)))
                while not asked[-1].done() and not await _seated(support, http, (len(asked) - 1) % 4 + 1):
                    await asyncio.sleep(0)
            bad = {"query": ["other text"], "prompts": [prompt], "labels": [RECORD]}
            async with http.post("/get_reward", json=bad) as answer:
                assert answer.status == 400 and "does not begin with its prompt" in await answer.text()
            return list(await asyncio.gather(*asked))

    told = asyncio.run(step())
    assert [one["rewards"] for one in told] == [[pytest.approx(row.reward, abs=1e-6)] for row in ours]
    assert all(one["scores"] == one["rewards"] and set(one["extra_logs"]) >= {"total", "s_in"} for one in told)


def test_whole_groups_in_one_call_and_prompts_that_are_not_there(alone: str, tmp_path: Path) -> None:
    support = Support(alone)
    talks: list[Talk] = [support.begin(RECORD) for _ in OUTPUTS]
    for talk, text in zip(talks, OUTPUTS, strict=True):
        assert asyncio.run(support.answer(talk, text)) is None
    scores = [row["score"] for row in support.score(RECORD, talks)]
    assert scores == [row.reward for row in support.reward.score([GROUPS[0]])]
    (tmp_path / "none.jsonl").write_text("")
    with pytest.raises(UserError, match="holds no prompts"):
        Support(alone, str(tmp_path / "none.jsonl"))


def test_trl_plays_through_the_server_by_tool_calls(
    talking: tuple[str, SeekerServer], tiny_model_dir: Path, tmp_path: Path
) -> None:
    """A tiny model that has learned one tool call by heart, in plain TRL, against the server over HTTP."""
    import json
    import threading

    import datasets
    import torch
    import trl
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    from compeer.policy.bridges.trl import SupportEnvironment, group_reward

    tokenizer = AutoTokenizer.from_pretrained(tiny_model_dir)
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates/qwen2_5.jinja").read_text(encoding="utf-8")
    model = AutoModelForCausalLM.from_pretrained(tiny_model_dir)
    said = output("What happened?")
    call = f"<tool_call>\n{json.dumps({'name': 'say', 'arguments': {'output': said}})}\n</tool_call><|im_end|>"
    prompt = [{"role": "user", "content": "I lost my job."}]

    ready, stop, place = threading.Event(), threading.Event(), [""]

    def serving() -> None:
        async def until_stopped() -> None:
            async with served(Support(talking[0])) as url:
                place[0] = url
                ready.set()
                while not stop.is_set():
                    await asyncio.sleep(0.01)

        asyncio.run(until_stopped())

    thread = threading.Thread(target=serving)
    thread.start()
    assert ready.wait(30)
    try:
        tool = SupportEnvironment(place[0], 2).say
        ids = tokenizer.apply_chat_template(prompt, tools=[tool], add_generation_prompt=True, tokenize=False)
        asked = tokenizer(ids, add_special_tokens=False)["input_ids"]
        answer = tokenizer(call, add_special_tokens=False)["input_ids"]
        row = torch.tensor([asked + answer])
        labels = torch.tensor([[-100] * len(asked) + answer])
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
        for _ in range(400):
            loss = model(input_ids=row, labels=labels).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if loss.item() < 0.003:
                break
        assert loss.item() < 0.003

        seen: list[tuple[float, Any]] = []

        def reward(**columns: Any) -> list[float]:
            found = group_reward(**columns)
            seen.extend(zip(found, columns["completions"], strict=True))
            return found

        arguments = GRPOConfig(
            output_dir=str(tmp_path), num_generations=2, per_device_train_batch_size=2, max_steps=1, use_cpu=True,
            max_completion_length=len(answer) + 64, max_tool_calling_iterations=1, report_to=[], save_strategy="no",
            disable_tqdm=True, temperature=0.5,
        )  # fmt: skip
        trainer = GRPOTrainer(
            model=model, processing_class=tokenizer, reward_funcs=reward, args=arguments,
            train_dataset=datasets.Dataset.from_list([{"prompt": prompt, "prompt_record": RECORD}] * 2),
            environment_factory=SupportEnvironment.at(place[0], group=2),
        )  # fmt: skip
        trainer.train()
    finally:
        stop.set()
        thread.join(30)
    heard = [[one["content"] for one in completion if one["role"] == "tool"] for _, completion in seen]
    assert heard == [["Okay."], ["Okay."]], "the seeker's words came back as the tool's result"
    support = Support(talking[0])
    talks = [support.begin(RECORD), support.begin(RECORD)]

    async def again() -> None:
        for talk in talks:
            await support.answer(talk, said)
            talk.end = "turns"
        await support.close()

    asyncio.run(again())
    ours = [row["score"] for row in support.score(RECORD, talks)]
    assert sorted(score for score, _ in seen) == pytest.approx(sorted(ours), abs=1e-6)
