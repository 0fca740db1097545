"""The request cache: what its key covers, and that nothing is lost, whoever writes and whoever is killed."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.models.serving import HELLO, QUICK, event, events, fault, said, serving

from compeer.models.cache import CachedModel, RequestCache
from compeer.models.embedded import Embedded
from compeer.models.endpoint import Endpoint
from compeer.models.local import Local
from compeer.models.request import Answer, Model, ModelError, Request, Usage
from compeer.reasoning import Control, Pins
from compeer.reasoning.grammar import plan

ANSWER = Answer(text="睡得着了。", finish="stop", usage=Usage(3, 4, 1), first=(("a", -0.5),), model="m")

#: for each field of a request, something else
CHANGES: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Hello!"}],
    "max_tokens": 21,
    "temperature": 0.8,
    "top_p": 0.9,
    "penalty": 1.1,
    "seed": 1,
    "stop": ("###",),
    "plan": plan("en"),
    "schema": {"type": "object"},
    "logprobs": 5,
    "sample": 1,
}


class TestKeys:
    @pytest.fixture(params=["endpoint", "local", "embedded"])
    def model(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Model:
        if request.param == "endpoint":
            return Endpoint("m", "http://127.0.0.1:1/v1")
        if request.param == "local":
            return Local(str(request.getfixturevalue("tiny_model_dir")))
        monkeypatch.setenv("COMPEER_WEIGHTS", str(request.getfixturevalue("tiny_gguf")))
        return Embedded()

    def test_the_key_covers_every_field(self, model: Model, tmp_path: Path) -> None:
        # an answer without the adapter differs only where there is one: see test_slots
        assert set(CHANGES) == {field.name for field in msgspec.structs.fields(Request)} - {"adapter"}, (
            "a new field needs a line here"
        )
        cached = CachedModel(model, RequestCache(tmp_path / "c"))
        keys = {cached.rendered(HELLO)}
        for name, value in CHANGES.items():
            changed = cached.rendered(msgspec.structs.replace(HELLO, **{name: value}))
            assert changed not in keys, f"{name} is no part of the key"
            keys.add(changed)

    def test_different_pins_are_different_requests(self, model: Model) -> None:
        keys = {
            model.rendered(msgspec.structs.replace(HELLO, plan=plan("en", Control(Pins(stage=stage)))))
            for stage in ("exploration", "action", None)
        }
        assert len(keys) == 3

    def test_the_same_request_has_the_same_key_in_another_process(self, model: Model) -> None:
        request = msgspec.structs.replace(HELLO, plan=plan("zh"), schema={"b": 1, "a": 2}, seed=3)
        same = msgspec.structs.replace(request, messages=[dict(reversed(HELLO.messages[0].items()))])
        assert model.rendered(same) == model.rendered(request), "the order of keys is no difference"

    def test_server_model_and_adapter_are_part_of_the_key(self, tiny_model_dir: Path, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        models: list[Model] = [
            Endpoint("m", "http://127.0.0.1:1/v1"),
            Endpoint("n", "http://127.0.0.1:1/v1"),
            Endpoint("m", "http://127.0.0.1:2/v1"),
            Local(str(tiny_model_dir)),
            Local(str(tiny_model_dir), str(tmp_path / "a")),
        ]
        assert len({model.rendered(HELLO) for model in models}) == len(models)
        assert Endpoint("m", "http://h/v1", "key a").rendered(HELLO) == Endpoint("m", "http://h/v1/").rendered(HELLO)

    def test_a_model_that_was_trained_further_in_the_same_folder(self, tmp_path: Path) -> None:
        weights = tmp_path / "model.safetensors"
        weights.write_bytes(b"before")
        before = Local(str(tmp_path)).rendered(HELLO)
        assert Local(str(tmp_path)).rendered(HELLO) == before
        weights.write_bytes(b"after!")
        os.utime(weights, ns=(1, 1))
        assert Local(str(tmp_path)).rendered(HELLO) != before

    def test_other_weights_of_the_embedded_model(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        keys = []
        for content in (b"one", b"two"):
            weights = tmp_path / "w.gguf"
            weights.write_bytes(content)
            monkeypatch.setenv("COMPEER_WEIGHTS", str(weights))
            keys.append(Embedded().rendered(HELLO))
        assert keys[0] != keys[1]

    @pytest.mark.parametrize("home", ["endpoint", "local"])
    def test_a_picture_counts_by_its_content(self, home: str, tmp_path: Path) -> None:
        model: Model = Endpoint("m", "http://h/v1") if home == "endpoint" else Local(str(tmp_path / "no-model"))

        def key(name: str, content: bytes) -> bytes:
            (tmp_path / name).write_bytes(content)
            parts = [{"type": "image", "path": str(tmp_path / name)}, {"type": "text", "text": "Who is this?"}]
            return model.rendered(Request(messages=[{"role": "user", "content": parts}]))

        first = key("a.png", b"one face")
        assert key("b.png", b"one face") == first, "the same picture elsewhere"
        assert key("c.png", b"another") != first
        assert key("a.png", b"another face") != first, "the same file, overwritten while we run"

    def test_a_picture_that_is_gone_is_an_error(self, tmp_path: Path) -> None:
        request = Request(messages=[{"role": "user", "content": [{"type": "image", "path": "/no/such.png"}]}])
        for model in (Endpoint("m", "http://h/v1"), Local(str(tmp_path))):
            with pytest.raises(ModelError, match=r"/no/such\.png cannot be read"):
                model.rendered(request)


class TestAnswers:
    def test_what_is_put_comes_back_whole_after_reopening(self, tmp_path: Path) -> None:
        path = tmp_path / "folder" / "answers.sqlite"
        cache = RequestCache(path)
        assert cache.get(b"k") is None
        cache.put(b"k", ANSWER)
        cache.close()
        again = RequestCache(path)
        assert again.get(b"k") == ANSWER
        assert (len(again), again.hits, again.misses, cache.misses) == (1, 1, 0, 1)

    def test_the_first_answer_stays(self, tmp_path: Path) -> None:
        cache = RequestCache(tmp_path / "c")
        cache.put(b"k", ANSWER)
        cache.put(b"k", msgspec.structs.replace(ANSWER, text="another"))
        assert cache.get(b"k") == ANSWER

    def test_a_server_is_asked_once_for_each_sample(self, tmp_path: Path) -> None:
        async def scenario() -> tuple[list[Answer], int]:
            async with serving(lambda server, _: said(f"answer {len(server.bodies)}")) as server:
                model = CachedModel(Endpoint("m", server.url, patience=QUICK), RequestCache(tmp_path / "c"))
                asked = [HELLO, HELLO, msgspec.structs.replace(HELLO, sample=1), HELLO]
                answers = [await model.ask(request) for request in asked]
                await model.close()
                return answers, len(server.bodies)

        answers, requests = asyncio.run(scenario())
        assert [answer.text for answer in answers] == ["answer 1", "answer 1", "answer 2", "answer 1"]
        assert [answer.from_cache for answer in answers] == [False, True, False, True]
        assert answers[1].usage == answers[0].usage == Usage(11, 7, 4)
        assert requests == 2

    def test_a_failure_is_not_remembered(self, tmp_path: Path) -> None:
        async def scenario() -> str:
            async with serving(lambda server, _: fault(400) if len(server.bodies) == 1 else said("Hi.")) as server:
                model = CachedModel(Endpoint("m", server.url, patience=QUICK), RequestCache(tmp_path / "c"))
                with pytest.raises(ModelError):
                    await model.ask(HELLO)
                answer = await model.ask(HELLO)
                await model.close()
                return answer.text

        assert asyncio.run(scenario()) == "Hi."

    def test_a_live_conversation_is_not_cached(self, tmp_path: Path) -> None:
        async def scenario() -> int:
            async with serving(lambda *_: events(event(content="Hi."))) as server:
                model = CachedModel(Endpoint("m", server.url, patience=QUICK), RequestCache(tmp_path / "c"))
                for _ in range(2):
                    assert [piece async for piece in model.stream(HELLO)] == ["Hi."]
                await model.close()
                return len(server.bodies)

        assert asyncio.run(scenario()) == 2

    def test_it_says_of_itself_what_the_model_says(self, tiny_vision_dir: Path, tmp_path: Path) -> None:
        cached = CachedModel(Local(str(tiny_vision_dir)), RequestCache(tmp_path / "c"))
        assert cached.sees, "before the weights are loaded: pictures must not be left out"
        assert cached.name == f"hf:{tiny_vision_dir}"


def _write(path: str, worker: int, count: int, ready: Any) -> None:
    cache = RequestCache(path)
    ready.wait()
    for number in range(count):
        cache.put(f"{worker}/{number}".encode(), msgspec.structs.replace(ANSWER, text=f"{worker}/{number}"))


#: a process that says which answers are safe, one a line
WRITER = """
import sys
from compeer.models.cache import RequestCache
from compeer.models.request import Answer
cache = RequestCache(sys.argv[1])
for number in range(10**9):
    cache.put(b"%s %d" % (sys.argv[2].encode(), number), Answer(text="x" * 500, finish="stop"))
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


class TestProcesses:
    def test_two_processes_lose_nothing(self, tmp_path: Path) -> None:
        spawn = multiprocessing.get_context("spawn")
        ready = spawn.Barrier(2)
        path = str(tmp_path / "c")
        workers = [spawn.Process(target=_write, args=(path, worker, 2000, ready)) for worker in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        assert [worker.exitcode for worker in workers] == [0, 0]
        cache = RequestCache(path)
        assert len(cache) == 4000
        for worker in range(2):
            for number in range(0, 2000, 97):
                found = cache.get(f"{worker}/{number}".encode())
                assert found
                assert found.text == f"{worker}/{number}"

    def test_many_processes_open_a_new_file_together(self, tmp_path: Path) -> None:
        fork = multiprocessing.get_context("fork")
        for number in range(15):
            path, ready = str(tmp_path / f"c{number}"), fork.Barrier(6)
            workers = [fork.Process(target=_open_and_write, args=(path, worker, ready)) for worker in range(6)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join(60)
            assert [worker.exitcode for worker in workers] == [0] * 6
            assert len(RequestCache(path)) == 6

    def test_a_killed_writer_leaves_every_answer_it_was_sure_of(self, tmp_path: Path) -> None:
        path = tmp_path / "c"
        for run in range(3):
            command = [sys.executable, "-c", WRITER, str(path), str(run)]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
                assert writer.stdout
                safe = [int(writer.stdout.readline()) for _ in range(150 + 70 * run)][-1]
                os.kill(writer.pid, signal.SIGKILL)
                safe = max([safe, *(int(line) for line in writer.stdout.read().splitlines() if line)])
                assert writer.wait() == -signal.SIGKILL
            with sqlite3.connect(path) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            cache = RequestCache(path)
            missing = [number for number in range(safe + 1) if cache.get(f"{run} {number}".encode()) is None]
            assert missing == []
            cache.close()

    def test_a_cache_survives_a_fork(self, tmp_path: Path) -> None:
        """Children of a process that writes all the time: its lock may be taken when they are born."""
        cache = RequestCache(tmp_path / "c")
        cache.put(b"parent", ANSWER)
        done = threading.Event()
        thread = threading.Thread(target=_keep_writing, args=(cache, done))
        thread.start()
        try:
            for number in range(12):
                child = os.fork()
                if child == 0:
                    status = 1
                    try:
                        seen = cache.get(b"parent") == ANSWER
                        for entry in range(5):
                            cache.put(f"child {number} {entry}".encode(), ANSWER)
                        status = 0 if seen else 2
                    finally:
                        os._exit(status)
                assert _status(child, 20) == 0
        finally:
            done.set()
            thread.join()
        assert all(cache.get(f"child {number} {entry}".encode()) for number in range(12) for entry in range(5))
        assert cache.get(b"parent") == ANSWER
        with sqlite3.connect(cache.path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def _open_and_write(path: str, worker: int, ready: Any) -> None:
    ready.wait()
    RequestCache(path).put(b"%d" % worker, ANSWER)


def _keep_writing(cache: RequestCache, done: threading.Event) -> None:
    number = 0
    while not done.is_set():
        cache.put(b"thread %d" % number, ANSWER)
        number += 1


def _status(child: int, seconds: float) -> int:
    """How a child ended; it is killed when it hangs."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class TestDamage:
    @pytest.mark.parametrize(
        "verb", [lambda c: c.get(b"k"), lambda c: c.put(b"n", ANSWER), len], ids=["get", "put", "len"]
    )
    @pytest.mark.parametrize("damage", ["text", "pages", "folder", "under a file"])
    def test_a_broken_file_is_a_clear_error(self, tmp_path: Path, damage: str, verb: Callable[[Any], Any]) -> None:
        path = tmp_path / "c"
        if damage == "text":
            path.write_text("this is no database\n" * 500)
        elif damage == "folder":
            path.mkdir()
        elif damage == "under a file":
            path.write_text("")
            path = path / "c"
        else:
            cache = RequestCache(path)
            for number in range(400):
                cache.put(b"%d" % number, msgspec.structs.replace(ANSWER, text="x" * 300))
            cache.close()
            whole = path.read_bytes()
            path.write_bytes(whole[:4096] + b"\x5a" * (len(whole) - 4096))
        with pytest.raises(ModelError, match=r"The request cache .* cannot be used: .*--cache"):
            verb(RequestCache(path))
