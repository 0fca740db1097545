"""Tokens weighed by llama.cpp, and the weights in floats that make it precise."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.models.serving import HELLO, QUICK, fault, said, serving

from compeer.models.embedded import Embedded
from compeer.models.endpoint import Endpoint
from compeer.models.llama_server import LlamaServer
from compeer.models.request import Answer, ModelError, Place, TooLong
from compeer.models.weighing import Weigher, weigher
from compeer.models.weights import as_floats

CHAT = [{"role": "user", "content": "True or False? 正确还是错误？"}]


@pytest.fixture
def tiny(tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> Embedded:
    monkeypatch.setenv("COMPEER_WEIGHTS", str(tiny_gguf))
    return Embedded(slots=1, context=1024, precise=True)


class TestWeighing:
    def test_tokens_divide_as_the_model_says(self, tiny: Embedded, tiny_model_dir: Path) -> None:
        """Against the softmax of a transformers model with the same weights, also for bytes that are no characters."""
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(tiny_model_dir)
        model = AutoModelForCausalLM.from_pretrained(tiny_model_dir)
        prompt = tokenizer.apply_chat_template(
            [{"role": "system", "content": "?"}, *CHAT], tokenize=False, add_generation_prompt=True
        )
        home = Weigher(tiny)

        async def scenario() -> None:
            for text, given in (("TF", []), ("正错", []), ("abcdefgh", tokenizer.encode("The"))):
                among = sorted(set(tokenizer.encode(text)))
                assert sorted(set(await home.tokenize(text))) == among
                ids = torch.tensor([tokenizer.encode(prompt) + given])
                with torch.no_grad():
                    expected = torch.softmax(model(ids).logits[0, -1, among], -1).tolist()
                found = await home.odds([{"role": "system", "content": "?"}, *CHAT], given, among)
                assert found == pytest.approx(expected, abs=1e-4)
                assert sum(found) == pytest.approx(1.0)
            await tiny.close()

        asyncio.run(scenario())

    def test_a_server_weighs_as_this_process_does(self, tiny: Embedded, tiny_gguf: Path) -> None:
        server = LlamaServer(tiny_gguf, slots=1, context=1024, precise=True)

        async def scenario() -> None:
            endpoint = Endpoint("tiny", f"{server.address}/v1", server.key)
            inside, outside = await weigher(tiny), await weigher(endpoint)
            assert inside and outside and (inside.model, outside.model) == (tiny, endpoint)
            chat = [{"role": "system", "content": "?"}, *CHAT]
            among = await inside.tokenize("TF正")
            assert await outside.tokenize("TF正") == among
            assert await outside.odds(chat, [], among) == pytest.approx(await inside.odds(chat, [], among), abs=1e-5)
            await endpoint.close()
            await tiny.close()

        asyncio.run(scenario())

    def test_other_homes_cannot(self) -> None:
        async def scenario() -> None:
            async with serving(lambda server, body: said("?"), "vllm") as server:
                endpoint = Endpoint("m", server.url, patience=QUICK)
                assert await weigher(endpoint) is None
                await endpoint.close()

        asyncio.run(scenario())

    def test_a_prompt_too_long_is_its_own_error(self, tiny: Embedded) -> None:
        long = [{"role": "user", "content": "very " * 3000}]
        with pytest.raises(TooLong, match="too long for the embedded model"):
            asyncio.run(Weigher(tiny).odds(long, [], [5, 6]))


class TestFloats:
    def test_quantised_weights_become_the_floats_they_stand_for(
        self, tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import gguf
        import numpy as np

        monkeypatch.setenv("COMPEER_CACHE", str(tmp_path / "cache"))
        quantised = _quantised(tiny_gguf, tmp_path / "q8.gguf")
        found = as_floats(quantised)
        assert found.parent == tmp_path / "cache"
        stored, floats = gguf.GGUFReader(quantised), gguf.GGUFReader(found)
        meant = {tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type) for tensor in stored.tensors}
        assert {tensor.name for tensor in floats.tensors} == set(meant)
        for tensor in floats.tensors:
            assert tensor.tensor_type in (gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.F32)
            assert np.allclose(np.asarray(tensor.data, dtype=np.float32), meant[tensor.name], rtol=1e-3, atol=1e-6)
        kept = {name for name in stored.fields if not name.startswith(("GGUF.", "general.file_type"))}
        assert all(floats.get_field(name).contents() == stored.get_field(name).contents() for name in kept)

    def test_they_are_made_once_and_again_when_the_file_changes(
        self, tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import os

        monkeypatch.setenv("COMPEER_CACHE", str(tmp_path / "cache"))
        quantised = _quantised(tiny_gguf, tmp_path / "q8.gguf")
        first = as_floats(quantised)
        made = first.stat().st_mtime_ns
        assert as_floats(quantised) == first
        assert first.stat().st_mtime_ns == made
        os.utime(quantised, ns=(1, 1))
        assert as_floats(quantised) != first
        assert [file.suffix for file in (tmp_path / "cache").iterdir()] == [".gguf", ".gguf"], "nothing half-written"

    def test_a_file_of_floats_is_taken_as_it_is(self, tiny_gguf: Path) -> None:
        assert as_floats(tiny_gguf) == tiny_gguf


def _quantised(source: Path, target: Path) -> Path:
    import gguf

    read = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, "llama")
    for field in read.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)
    for tensor in read.tensors:
        values, kind = tensor.data, None
        if len(tensor.shape) > 1:
            kind = gguf.GGMLQuantizationType.Q8_0
            values = gguf.quants.quantize(values, kind)
        writer.add_tensor(tensor.name, values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


class TestEndpoint:
    @pytest.mark.parametrize(
        "message",
        [
            "This model's maximum context length is 4096 tokens. However, you requested 5000.",
            "the request exceeds the available context size, try increasing it",
            '{"error": {"code": "context_length_exceeded", "message": "Input is too long."}}',
        ],
    )
    def test_a_conversation_too_long_is_its_own_error(self, message: str) -> None:
        with pytest.raises(TooLong):
            asyncio.run(_asked(lambda server, body: fault(400, message)))

    def test_another_refusal_is_not(self) -> None:
        with pytest.raises(ModelError, match="unknown field") as caught:
            asyncio.run(_asked(lambda server, body: fault(400, "unknown field")))
        assert not isinstance(caught.value, TooLong)

    def test_every_place_with_its_alternatives(self) -> None:
        def reply(server: Any, body: dict[str, Any]) -> Any:
            half = {"token": "\ufffd", "bytes": [230, 173], "logprob": -0.5}
            top = [half, {"token": "No", "bytes": None, "logprob": -1.5}]
            completion = said("正")
            completion["choices"][0]["logprobs"] = {
                "content": [{**half, "top_logprobs": top}, {"token": "!", "bytes": [163], "logprob": 0.0}]
            }
            return completion

        answer = asyncio.run(_asked(reply))
        assert answer.places == (Place(b"\xe6\xad", ((b"\xe6\xad", -0.5), (b"No", -1.5))), Place(b"\xa3", ()))

    def test_a_real_server_tells_them(self, tiny_gguf: Path, one_thread: None) -> None:
        import msgspec

        server = LlamaServer(tiny_gguf, slots=1, context=1024)

        async def scenario() -> Answer:
            endpoint = Endpoint("tiny", f"{server.address}/v1", server.key)
            try:
                return await endpoint.ask(msgspec.structs.replace(HELLO, logprobs=3, max_tokens=5, temperature=0.0))
            finally:
                await endpoint.close()

        answer = asyncio.run(scenario())
        assert 1 <= len(answer.places) <= 5
        for place in answer.places:
            assert [value for _, value in place.alternatives] == sorted(
                (v for _, v in place.alternatives), reverse=True
            )
            # what it held back of a character before is told together with the token that ends it
            assert place.token.endswith(place.alternatives[0][0])
            assert sum(math.exp(value) for _, value in place.alternatives) <= 1.0001

    def test_questions_beside_the_protocol_are_tried_again(self) -> None:
        async def scenario() -> tuple[dict[str, Any], int]:
            from aiohttp import web

            count = 0

            async def tokenize(request: web.Request) -> web.StreamResponse:
                nonlocal count
                count += 1
                return fault(503, "loading") if count == 1 else web.json_response({"tokens": [1, 2]})

            app = web.Application()
            app.router.add_post("/tokenize", tokenize)
            runner = web.AppRunner(app)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            endpoint = Endpoint("m", f"http://127.0.0.1:{runner.addresses[0][1]}/v1", patience=QUICK)
            try:
                return await endpoint.post("/tokenize", {"content": "x"}), count
            finally:
                await endpoint.close()
                await runner.cleanup()

        answer, count = asyncio.run(scenario())
        assert (answer, count) == ({"tokens": [1, 2]}, 2)


async def _asked(reply: Any) -> Answer:
    async with serving(reply) as server:
        endpoint = Endpoint("m", server.url, patience=QUICK)
        try:
            return await endpoint.ask(HELLO)
        except aiohttp.ClientError as error:
            raise AssertionError("not an error for people") from error
        finally:
            await endpoint.close()
