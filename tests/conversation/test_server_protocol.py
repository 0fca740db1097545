"""The openai package against a real `compeer serve` in front of a scripted model."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.cli.command import compeer
from tests.conversation.serving import Server, serving
from tests.conversation.supporter import Supporter
from tests.conversation.test_requests import PICTURE

TAG = re.compile(r"</?[A-Za-z][^<>]*>")
MODEL = "kind-7b"


def hello(**more: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": "I lost my job."}]} | more


def streamed(server: Server, **more: Any) -> list[Any]:
    return list(server.client().chat.completions.create(**hello(**more), stream=True))


class TestAnswers:
    def test_thinking_is_streamed_first_then_the_reply_then_the_steps(self, server: Server) -> None:
        deltas = [chunk.choices[0].delta for chunk in streamed(server)]
        kinds = ["reasoning" if getattr(d, "reasoning", None) else "content" if d.content else "end" for d in deltas]
        assert kinds == sorted(kinds, key=["reasoning", "content", "end"].index)
        assert kinds.count("reasoning") > 10 and kinds.count("content") >= 1 and kinds.count("end") == 1
        reasoning = "".join(getattr(d, "reasoning", None) or "" for d in deltas)
        content = "".join(d.content or "" for d in deltas)
        assert content.startswith("That sounds heavy to carry alone")
        assert "What they feel\nThey are ashamed, and afraid of being seen.\nSentiment: negative" in reasoning
        assert not TAG.search(reasoning + content)
        told = deltas[-1].compeer
        assert told["complete"] and told["steps"]["emotion"]["emotion"] == "shame"
        assert told["steps"]["history"]["text"] == "They lost their job and told nobody at home."

    def test_the_whole_answer_is_the_stream_in_one_piece(self, server: Server) -> None:
        deltas = [chunk.choices[0].delta for chunk in streamed(server)]
        whole = server.client().chat.completions.create(**hello())
        message: Any = whole.choices[0].message
        assert message.reasoning == "".join(getattr(d, "reasoning", None) or "" for d in deltas)
        assert re.sub(r"\d", "", message.content) == re.sub(r"\d", "", "".join(d.content or "" for d in deltas))
        assert (whole.choices[0].finish_reason, message.compeer) == ("stop", deltas[-1].compeer)

    def test_pins_hold_and_an_edited_step_is_continued(self, server: Server) -> None:
        first: Any = server.client().chat.completions.create(**hello()).choices[0].message
        steps = {"history": first.compeer["steps"]["history"], "emotion": "It is anger they swallow, not shame."}
        wishes = {"pin": {"strategy": "self-disclosure", "emotion": "anger"}, "steps": steps}
        second: Any = server.client().chat.completions.create(**hello(), extra_body={"compeer": wishes})
        told = second.choices[0].message.compeer
        assert told["complete"], told["problems"]
        assert told["steps"]["emotion"]["text"] == "It is anger they swallow, not shame."
        assert told["steps"]["emotion"]["emotion"] == "anger"
        assert told["steps"]["strategy"]["strategy"] == "self-disclosure"
        assert told["steps"]["history"] == first.compeer["steps"]["history"]

    def test_what_is_wrong_is_said_with_its_tags(self, server: Server, supporter: Supporter) -> None:
        supporter.manner, supporter.text = "says", "<think>\n<script>x</script>\n</think>\nI am here."
        message: Any = server.client().chat.completions.create(**hello()).choices[0].message
        told = " ".join(one["message"] for one in message.compeer["problems"])
        assert all(f"<{step}>" in told for step in ("history", "emotion", "strategy")), told
        assert "<script" not in told and not message.compeer["complete"]

    def test_the_thinking_can_be_left_out(self, server: Server) -> None:
        message: Any = server.client().chat.completions.create(**hello(), extra_body={"compeer": {"show": False}})
        found = message.choices[0].message.model_dump()
        assert "reasoning" not in found and "steps" not in found["compeer"]
        assert found["content"]

    def test_a_stop_string_cuts_the_reply_alone(self, server: Server, supporter: Supporter) -> None:
        choice: Any = server.client().chat.completions.create(**hello(stop=["heavy", "job"])).choices[0]
        assert (choice.message.content.strip(), choice.finish_reason) == ("That sounds", "stop")
        assert "They lost their job" in choice.message.reasoning
        assert "stop" not in supporter.bodies[-1]

    def test_chinese_is_answered_in_chinese(self, server: Server) -> None:
        message: Any = server.client().chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "我丢了工作"}]
        )
        assert message.choices[0].message.content.startswith("一个人扛着这些")
        assert "感受如何\n" in message.choices[0].message.reasoning

    def test_pictures_reach_the_model(self, server: Server, supporter: Supporter) -> None:
        content = [{"type": "text", "text": "Look at me."}, PICTURE]
        server.client().chat.completions.create(model=MODEL, messages=[{"role": "user", "content": content}])  # type: ignore[typeddict-item]
        assert supporter.bodies[-1]["messages"][1]["content"][0] == PICTURE

    def test_nothing_that_was_said_is_on_disk(self, server: Server, supporter: Supporter) -> None:
        said = [{"type": "text", "text": "Rumpelstiltskin wants to die."}, PICTURE]
        for stream in (True, False):
            found: Any = server.client().chat.completions.create(  # type: ignore[call-overload]
                model=MODEL, messages=[{"role": "user", "content": said}], stream=stream
            )
            assert list(found)
        assert "Rumpelstiltskin" in str(supporter.bodies)
        assert not server.on_disk("Rumpelstiltskin") and not server.on_disk("carry alone")
        assert not list(server.folder.rglob("*.png"))


class TestErrors:
    @pytest.mark.parametrize(
        ("change", "kind", "param"),
        [
            ({"n": 3}, openai.BadRequestError, "n"),
            ({"messages": []}, openai.BadRequestError, "messages"),
            ({"model": "gpt-9"}, openai.NotFoundError, "model"),
            ({"extra_body": {"compeer": {"pin": {"strategy": "hypnosis"}}}}, openai.BadRequestError, "compeer"),
        ],
    )
    def test_they_are_what_the_client_expects(self, server: Server, change: Any, kind: Any, param: str) -> None:
        with pytest.raises(kind) as caught:
            server.client().chat.completions.create(**hello(**change))
        assert caught.value.param == param
        assert len(caught.value.body["message"]) > 20

    def test_the_rest_of_http(self, server: Server) -> None:
        assert server.post(b"{")[0] == 400
        assert server.post(b"{}", **{"Content-Type": "text/plain"})[0] == 415
        assert server.get("/v1/nothing")[0] == 404
        assert json.loads(server.get("/v1/chat/completions")[2])["error"]["type"] == "invalid_request_error"
        assert server.client().models.retrieve(MODEL).id == MODEL

    def test_the_log_and_the_metrics_hold_no_words(self, server: Server) -> None:
        server.client().chat.completions.create(**hello(messages=[{"role": "user", "content": "Rumpelstiltskin"}]))
        written = server.log.read_text() + server.get("/metrics")[2]
        assert "chatcmpl-" in written and "Rumpelstiltskin" not in written
        assert server.metric("compeer_serve_first_token_seconds_count") >= 1
        assert server.metric("compeer_serve_tokens_total", "completion") > 20


class TestAccess:
    def test_keys_and_origins(self, supporter: Supporter, tmp_path: Path) -> None:
        keys = tmp_path / "keys"
        keys.write_text("# two people\nalpha\n\nbeta\n")
        words = ("--model=openai:m", f"--base-url={supporter.base_url}", f"--key-file={keys}", "--key=gamma")
        with serving(tmp_path, *words, "--origin=https://chat.example.org", "--name=mine") as server:
            for key in ("alpha", "beta", "gamma"):
                assert server.client(key).models.list().data[0].id == "mine"
            for key in ("", "alph", "# two people", "alpha beta"):
                with pytest.raises(openai.AuthenticationError):
                    server.client(key or "x").models.list()
            assert (server.get("/health")[0], server.get("/metrics")[0]) == (200, 401)
            theirs = server.get("/health", Origin="https://chat.example.org")[1]
            assert theirs["Access-Control-Allow-Origin"] == "https://chat.example.org"
            assert "Access-Control-Allow-Origin" not in server.get("/health", Origin="https://evil.example")[1]
            asked = {"Origin": "https://chat.example.org", "Access-Control-Request-Method": "POST"}
            assert server.post(b"", method="OPTIONS", **asked)[0] == 204
            assert server.post(b"", method="OPTIONS", **(asked | {"Origin": "https://evil.example"}))[0] == 401

    def test_a_public_address_needs_a_key(self) -> None:
        done = compeer("serve", "--host=0.0.0.0", "--port=0")
        assert done.returncode == 1
        assert "no key is set" in done.stderr and "--key" in done.stderr


class TestStopping:
    """Ctrl-C, with an answer under way that takes some seconds."""

    @staticmethod
    def begun(supporter: Supporter, folder: Path) -> Any:
        supporter.delay = 0.05
        return serving(folder, "--model=openai:kind-7b", f"--base-url={supporter.base_url}")

    def test_it_says_that_it_finishes_the_answer_and_does(self, supporter: Supporter, tmp_path: Path) -> None:
        with self.begun(supporter, tmp_path) as server:
            stream = iter(server.client().chat.completions.create(**hello(), stream=True))
            chunks: list[Any] = [next(stream)]
            server.process.send_signal(signal.SIGINT)
            chunks += stream
            assert chunks[-1].choices[0].finish_reason == "stop" and chunks[-1].choices[0].delta.compeer["complete"]
            assert server.process.wait(30) == 0
            log = server.log.read_text()
            assert "Stopping: finishing 1 answer under way. Press Ctrl-C again to end at once." in log
            assert "Traceback" not in log

    def test_a_second_one_ends_at_once(self, supporter: Supporter, tmp_path: Path) -> None:
        supporter.manner = "hang"
        with self.begun(supporter, tmp_path) as server, ThreadPoolExecutor(1) as pool:
            asked = pool.submit(server.post, hello())
            wait_for(lambda: bool(supporter.bodies))
            server.process.send_signal(signal.SIGINT)
            wait_for(lambda: "Press Ctrl-C again" in server.log.read_text())
            server.process.send_signal(signal.SIGINT)
            assert server.process.wait(10) == 130
            assert asked.exception(10) is not None, "the connection is closed"
            assert "Traceback" not in server.log.read_text()

    def test_with_nothing_under_way_it_just_stops(self, supporter: Supporter, tmp_path: Path) -> None:
        with self.begun(supporter, tmp_path) as server:
            server.process.send_signal(signal.SIGINT)
            assert server.process.wait(30) == 0
            assert "Stopping." in server.log.read_text() and "finishing" not in server.log.read_text()


def wait_for(happened: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)
