"""The environments of docs/environments.md, driven by the tools they are for. Each runs in the tool's own environment.

    python -m tests.reward.rule_judge --port 8020                 # here: a judge by rule, or compeer reward serve
    VERIFIERS/bin/python -m runs.environments verifiers WORK      # verifiers 0.4.0 and compeer
    OPENENV/bin/python -m runs.environments openenv WORK          # openenv 0.10.0 and compeer
    OPENRLHF/bin/python -m runs.environments openrlhf WORK        # openrlhf 0.11.2 (--no-deps) and compeer

The policy and the seeker are a scripted endpoint behind a real port: four outputs to each prompt, in turn, and a seeker
who likes questions. The judge is a service of its own. Every reward is compared with `CompositeReward` or `TalkReward`
on the same group in this process. WORK gets the configuration, the prompts and what the tool wrote.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from compeer.cer import gold
from compeer.cer.item import without_images
from compeer.dialogue import write_rows
from compeer.policy.bridges.datasets import FORMATS
from compeer.policy.bridges.environment import Support, Task, read_tasks
from compeer.policy.multi_turn import Talk
from compeer.reasoning import render
from compeer.typed import from_plain

GROUP, PROMPTS = 4, 2


def items() -> list[Any]:
    """The first English items of the gold set whose candidates are complete."""
    found = [item for item in gold.load() if item.language == "en" and item.candidate and item.candidate.reasoning]
    return [without_images(item) for item in found[: PROMPTS * GROUP]]


def outputs(number: int) -> list[str]:
    """Four outputs to the prompt of this number: two replies, one of them twice, and one without the format."""
    item = items()[number]
    reasoning = item.candidate.reasoning
    replies = [item.candidate.response, item.candidate.response, "That sounds hard. What was the worst of it?"]
    return [*(render(reasoning, reply) for reply in replies), "Cheer up."]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


class Endpoint:
    """The policy (model "policy") and the seeker (model "seeker") behind one port."""

    def __init__(self) -> None:
        self.said: Counter[str] = Counter()
        self.base_url = ""

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        shown = "\n".join(_text(message.get("content")) for message in body["messages"])
        if body["model"] == "seeker":
            asks = "?" in body["messages"][-1]["content"].rpartition("> ")[2]
            text = json.dumps({"felt": "heard" if asks else "alone", "change": 8 if asks else -4,
                               "reply": "I keep thinking about it.", "leaves": False})  # fmt: skip
        else:
            number = next(at for at, item in enumerate(items()) if item.history[-1].text in shown)
            turns = sum(message["role"] == "assistant" for message in body["messages"])
            given = self.said[f"{number}/{turns}"]
            self.said[f"{number}/{turns}"] += 1
            text = outputs(number)[given % GROUP]
        if body.get("stream"):
            return await self._stream(request, text)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return web.json_response({"id": "x", "object": "chat.completion", "created": 0, "model": body["model"],
                                  "choices": [choice], "usage": usage})  # fmt: skip

    async def _stream(self, request: web.Request, text: str) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for delta, reason in (({"role": "assistant", "content": text}, None), ({}, "stop")):
            chunk = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "policy",
                     "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}  # fmt: skip
            await answer.write(f"data: {json.dumps(chunk)}\n\n".encode())
        await answer.write(b"data: [DONE]\n\n")
        return answer


@contextmanager
def served(application: web.Application) -> Iterator[str]:
    """An application on a free port, in its own thread."""
    loop, ready, place = asyncio.new_event_loop(), threading.Event(), [""]

    def run() -> None:
        asyncio.set_event_loop(loop)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        loop.run_until_complete(runner.setup())
        loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
        place[0] = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait(30)
    try:
        yield place[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def prepared(work: Path, judge: str, base_url: str, turns: int) -> tuple[str, str]:
    """The configuration and the prompts in WORK."""
    work.mkdir(parents=True, exist_ok=True)
    lines = ["variant: urp", f"group: {GROUP}", f"judge: {{ spec: '{judge}', budget: 300 }}"]
    if turns > 1:
        lines.append(
            f"conversation: {{ seeker: 'openai:seeker', base_url: '{base_url}', talks: {{ turns: {turns} }} }}"
        )
    (work / "reward.yaml").write_text("\n".join(lines) + "\n")
    write_rows(work / "prompts.jsonl", [FORMATS["trl-grpo"](item, "brief") for item in items()[:PROMPTS]])
    return str(work / "reward.yaml"), str(work / "prompts.jsonl")


def compared(title: str, support: Support, groups: list[tuple[str, list[Talk], list[float]]]) -> None:
    """Print the rewards of the tool beside ours, and fail where they differ."""
    worst = 0.0
    for record, talks, theirs in groups:
        ours = [row["score"] for row in support.score(record, talks)]
        worst = max([worst, *(abs(a - b) for a, b in zip(ours, theirs, strict=True))])
        print(f"{title}: {json.loads(record)['id']}")
        print("  theirs " + "  ".join(f"{value:9.6f}" for value in theirs))
        print("  ours   " + "  ".join(f"{value:9.6f}" for value in ours))
    print(f"{title}: {sum(len(talks) for _, talks, _ in groups)} rewards, largest difference {worst:.1e}")
    support.reward.judge.close()  # type: ignore[union-attr]
    assert worst <= 1e-6


def verifiers(work: Path, judge: str, turns: int) -> None:
    """`vf-eval compeer-esc`, and the traces that it wrote."""
    endpoint, application = Endpoint(), web.Application()
    application.router.add_post("/v1/chat/completions", endpoint.chat)
    with served(application) as url:
        config, prompts = prepared(work, judge, f"{url}/v1", turns)
        command = [str(Path(sys.executable).parent / "vf-eval"), "compeer-esc", "--env.taskset.prompts", prompts,
                   "--env.reward", config, "--env.group", str(GROUP), "-m", "policy", "--client.base-url", f"{url}/v1",
                   "--client.api-key-var", "POLICY_KEY", "--no-push", "--no-rich", "--output-dir", str(work / "eval"),
                   "--run.dir", "run", "--clean"]  # fmt: skip
        print("$ " + " ".join(["vf-eval", *command[1:]]))
        done = subprocess.run(
            command, env=os.environ | {"POLICY_KEY": "x"}, capture_output=True, text=True, timeout=500
        )
        print("\n".join((done.stdout + done.stderr).splitlines()[-12:]))
        assert done.returncode == 0
        file = next(
            path for path in (work / "eval").rglob("*.jsonl") if "traces" in path.name or "episodes" in path.name
        )
        groups = []
        for line in file.read_text(encoding="utf-8").splitlines():
            episode = json.loads(line)
            traces = episode["traces"]
            talks = [from_plain(trace["info"]["talk"], Talk) for trace in traces]
            rewards = [trace["rewards"]["empathy"]["score"] for trace in traces]
            groups.append((episode["task"]["data"]["prompt_record"], talks, rewards))
        compared("verifiers", Support(config), groups)


def openenv(work: Path, judge: str, turns: int) -> None:
    """Our server in a process, and openenv's GenericEnvClient: one session per output, all of a group at once."""
    from openenv.core import GenericEnvClient  # type: ignore[import-not-found]

    endpoint, application = Endpoint(), web.Application()
    application.router.add_post("/v1/chat/completions", endpoint.chat)
    with served(application) as url:
        config, prompts = prepared(work, judge, f"{url}/v1", turns)
        server = subprocess.Popen(
            [sys.executable, "-m", "compeer.policy.bridges.server", config, prompts, "--port", "0"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert server.stdout is not None
            address = server.stdout.readline().removeprefix("listening on ").strip()

            async def play(index: int, seat: int) -> tuple[dict[str, Any], float]:
                async with GenericEnvClient(base_url=address, message_timeout_s=300) as client:
                    result = await client.reset(index=index, group=f"prompt {index}")
                    await asyncio.sleep(seat * 0.5)  # seats in the order of the outputs, as in our own group
                    given = []
                    while not result.done:
                        given.append(outputs(index)[seat])
                        result = await client.step({"output": given[-1]})
                    return {"given": given, "state": await client.state()}, float(result.reward)

            async def all_of_them() -> list[list[tuple[dict[str, Any], float]]]:
                return [
                    list(await asyncio.gather(*(play(index, seat) for seat in range(GROUP))))
                    for index in range(PROMPTS)
                ]

            played = asyncio.run(all_of_them())
            print(
                "state of the last session:",
                json.dumps({k: v for k, v in played[-1][0][0]["state"].items() if k != "group"}),
            )
            compared("openenv", (support := Support(config, prompts)), replayed(support, played))
        finally:
            server.kill()


def replayed(
    support: Support, played: list[list[tuple[dict[str, Any], float]]]
) -> list[tuple[str, list[Talk], list[float]]]:
    """The same conversations with our own objects."""

    async def talk_of(task: Task, given: list[str]) -> Talk:
        talk = support.begin(task.prompt_record)
        for text in given:
            await support.answer(talk, text)
        return talk

    async def all_of_them() -> list[tuple[str, list[Talk], list[float]]]:
        groups = []
        for task, group in zip(support.tasks, played, strict=False):
            talks = [await talk_of(task, told["given"]) for told, _ in group]
            groups.append((task.prompt_record, talks, [reward for _, reward in group]))
        await support.close()
        return groups

    return asyncio.run(all_of_them())


def openrlhf(work: Path, judge: str, turns: int) -> None:
    """OpenRLHF's own executor fetches rewards from the server, one output at a time, as in its rollouts."""
    from openrlhf.utils.agent import SingleTurnAgentExecutor  # type: ignore[import-not-found]

    config, prompts = prepared(work, judge, "", 1)
    server = subprocess.Popen(
        [sys.executable, "-m", "compeer.policy.bridges.server", config, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        address = server.stdout.readline().removeprefix("listening on ").strip()
        executor = SingleTurnAgentExecutor(f"{address}/get_reward")

        async def fetched(task: Task, seat: int, text: str) -> float:
            await asyncio.sleep(seat * 0.5)
            prompt = "".join(f"<|im_start|>{one['role']}\n{one['content']}<|im_end|>\n" for one in task.prompt)
            found = await executor._fetch_rewards_via_http(
                [f"{prompt}{text}<|im_end|>"], [prompt], [task.prompt_record]
            )
            return float(found[0]["rewards"][0])

        async def all_of_them() -> list[list[float]]:
            return [
                list(await asyncio.gather(*(fetched(task, seat, text) for seat, text in enumerate(outputs(number)))))
                for number, task in enumerate(read_tasks(prompts))
            ]

        rewards = asyncio.run(all_of_them())
        support = Support(config, prompts)
        played = [
            [({"given": [text]}, reward) for text, reward in zip(outputs(number), group, strict=True)]
            for number, group in enumerate(rewards)
        ]
        compared("openrlhf", support, replayed(support, played))
    finally:
        server.kill()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("tool", choices=("verifiers", "openenv", "openrlhf"))
    options.add_argument("work", type=Path)
    options.add_argument("--judge", default="http://127.0.0.1:8020")
    options.add_argument("--turns", type=int, default=1, help="turns of the supporter; more than 1: with the seeker")
    given = options.parse_args()
    {"verifiers": verifiers, "openenv": openenv, "openrlhf": openrlhf}[given.tool](given.work, given.judge, given.turns)


if __name__ == "__main__":
    main()
