"""Adapters that come along: what `embedded` means in both homes, and what it is where they are missing."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.hidden import hide
from tests.models.test_lora_gguf import IDS, adapted, apart, in_llamacpp, in_torch

from compeer.models import Request, open_model, run, shipped
from compeer.models.checkpoint import model_sha256
from compeer.models.embedded import Embedded
from compeer.models.local import Local
from compeer.models.lora_gguf import converted, read_tensors
from compeer.models.request import ModelError
from compeer.models.weights import BASE, published
from compeer.reward.chat_judge import ChatJudge
from compeer.reward.local_judge import LocalJudge
from compeer.reward.spec import open_judge

HELLO = Request(messages=[{"role": "user", "content": "Hello"}], max_tokens=8, temperature=0.0)


@pytest.fixture
def ours(tiny_model_dir: Path, tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny model as the embedded one, with adapters of its own that come along."""
    import torch

    model = adapted(tiny_model_dir).to(torch.bfloat16)
    for role in ("supporter", "judge"):
        model.save_pretrained(tmp_path / "adapters" / role)
    (tmp_path / "adapters" / "judge" / "judge.json").write_text(json.dumps({"kind": "unified", "base": "embedded"}))
    monkeypatch.setenv("COMPEER_WEIGHTS", str(tiny_gguf))
    monkeypatch.setenv("COMPEER_ADAPTERS", str(tmp_path / "adapters"))
    monkeypatch.setenv("COMPEER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "adapters"


class TestReading:
    @pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
    def test_numpy_reads_what_torch_wrote(self, dtype: str, tmp_path: Path) -> None:
        import torch
        from safetensors.torch import save_file

        written = {"a": torch.randn(3, 5).to(getattr(torch, dtype)), "b.c": torch.zeros(0, 4, dtype=torch.float32)}
        save_file(written, tmp_path / "x.safetensors", metadata={"format": "pt"})
        read = read_tensors(tmp_path / "x.safetensors")
        assert read.keys() == written.keys()
        assert all((read[name] == written[name].float().numpy()).all() for name in read)

    def test_a_torn_file_is_told(self, tmp_path: Path) -> None:
        import torch
        from safetensors.torch import save

        whole = save({"a": torch.ones(4, 4)})
        for torn in (
            b"",
            whole[:6],
            whole[:40],
            whole[:-1],
            b"\xff" * 64,
            save({"a": torch.ones(2, dtype=torch.int8)}),
        ):
            (tmp_path / "x.safetensors").write_bytes(torn)
            with pytest.raises(ModelError, match=r"x\.safetensors"):
                read_tensors(tmp_path / "x.safetensors")


class TestMeaning:
    def test_embedded_has_the_adapter_and_plain_has_not_in_both_homes(self, ours: Path) -> None:
        def of(spec: str) -> Any:
            model = open_model(spec)
            assert model.name == spec
            return model

        first, plain = of("embedded"), of("embedded:plain")
        assert isinstance(first, Embedded) and (first.adapter, plain.adapter) == (ours / "supporter", None)
        local, bare = of("hf:embedded"), of("hf:embedded:plain")
        assert isinstance(local, Local) and (local.path, local.adapter) == ("embedded", str(ours / "supporter"))
        assert (bare.path, bare.adapter) == ("embedded", None)
        named = open_model(f"embedded+{ours / 'supporter'}")
        assert isinstance(named, Embedded) and named.rendered(HELLO) == first.rendered(HELLO)
        assert len({one.rendered(HELLO) for one in (first, plain, local, bare)}) == 4
        assert shipped.sha256(ours / "supporter").encode() in first.rendered(HELLO)
        assert str(model_sha256(str(ours / "supporter"))).encode() in local.rendered(HELLO)

    def test_llamacpp_with_the_shipped_adapter_is_peft(self, ours: Path, tiny_model_dir: Path, tiny_gguf: Path) -> None:
        import peft
        from transformers import AutoModelForCausalLM

        base = AutoModelForCausalLM.from_pretrained(tiny_model_dir)
        theirs = in_torch(peft.PeftModel.from_pretrained(base, ours / "supporter").eval(), IDS)
        file = converted(ours / "supporter", tiny_gguf)
        assert apart(in_llamacpp(tiny_gguf, file, IDS), theirs) < 1e-3
        assert apart(in_llamacpp(tiny_gguf, None, IDS), theirs) > 0.1

        async def said(spec: str) -> str:
            model = open_model(spec, slots=1, context=512)
            try:
                return (await model.ask(HELLO)).text
            finally:
                await model.close()

        assert run(said("embedded")) == run(said(f"embedded+{file}")) != run(said("embedded:plain"))

    def test_an_adapter_is_converted_once_and_another_one_anew(self, ours: Path, tiny_gguf: Path) -> None:
        first = converted(ours / "supporter", tiny_gguf)
        stamp = first.stat().st_mtime_ns
        assert converted(ours / "judge", tiny_gguf) == first and first.stat().st_mtime_ns == stamp
        settings = json.loads((ours / "judge" / shipped.CONFIG).read_text())
        (ours / "judge" / shipped.CONFIG).write_text(json.dumps(settings | {"lora_alpha": 99}))
        assert converted(ours / "judge", tiny_gguf) != first
        assert len(list(first.parent.iterdir())) == 2, "and nothing is left beside them"
        (ours / "judge" / shipped.WEIGHTS).write_bytes(b"torn")
        with pytest.raises(ModelError, match=r"no adapter that can be read"):
            converted(ours / "judge", tiny_gguf)

    def test_a_judge_takes_the_judge_when_it_is_of_its_kind(self, ours: Path) -> None:
        judge = open_judge("embedded")
        assert isinstance(judge, ChatJudge) and judge.model.adapter == ours / "judge"  # type: ignore[attr-defined]
        for spec, kind in (("embedded:plain", None), ("embedded", "prm")):
            other = open_judge(spec, kind=kind)  # type: ignore[arg-type]
            assert other.model.adapter is None  # type: ignore[attr-defined]
        local, plain = open_judge("hf:embedded"), open_judge("hf:embedded:plain")
        assert isinstance(local, LocalJudge) and (local.path, local.adapter) == ("embedded:small", str(ours / "judge"))
        assert isinstance(plain, LocalJudge) and (plain.path, plain.adapter) == ("embedded:small", None)
        identities = [run(one.identity()) for one in (judge, local, plain)]
        assert identities[0]["adapter"] == identities[1]["adapter"] != identities[2]["adapter"]


class TestWithout:
    def test_other_weights_get_no_adapter_made_for_the_published_ones(
        self, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("COMPEER_ADAPTERS", raising=False)
        assert published()
        monkeypatch.setenv("COMPEER_WEIGHTS", str(tiny_gguf))
        assert not published() and not any(shipped.adapter(role) for role in shipped.ROLES)

    def test_where_none_lies_embedded_is_plain_and_the_doctor_says_so(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from compeer.cli.installation import examine

        monkeypatch.setenv("COMPEER_ADAPTERS", str(tmp_path))
        model = open_model("embedded:small")
        assert isinstance(model, Embedded) and (model.adapter, model.name) == (None, "embedded:small")
        found = next(one for one in examine(ask_models=False) if one.what == "adapters")
        assert (
            not found.ok and not found.needed and "no supporter-1.5b and no supporter and no judge here" in found.found
        )

    def test_a_light_installation_converts_without_torch(self, ours: Path, tmp_path: Path) -> None:
        code = (
            "import sys; from compeer.models.lora_gguf import converted; from compeer.models import shipped, weights\n"
            "print(converted(shipped.adapter('judge'), weights.locate())); assert 'torch' not in sys.modules"
        )
        hidden = hide(tmp_path, "torch", "transformers", "peft")
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **hidden}, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert Path(done.stdout.strip()).read_bytes()[:4] == b"GGUF"


@pytest.mark.parametrize("role", ["supporter", "judge"])
def test_what_is_shipped_fits_the_published_model_and_has_a_card(
    role: shipped.Role, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from compeer.models.weights import locate

    for name in ("COMPEER_ADAPTERS", "COMPEER_WEIGHTS"):
        monkeypatch.delenv(name, raising=False)
    folder = shipped.adapter(role)
    assert folder is not None, f"the package has lost its {role}"
    settings = json.loads((folder / shipped.CONFIG).read_text())
    assert settings["base_model_name_or_path"] == "embedded"
    tensors = read_tensors(folder / shipped.WEIGHTS)
    assert len(tensors) == 30 * 7 * 2 and {min(one.shape) for one in tensors.values()} == {settings["r"]}
    assert (folder / shipped.WEIGHTS).stat().st_size < 12_000_000
    card = (folder / "README.md").read_text()
    assert "cc-by-nc-4.0" in card.lower().replace(" ", "-") and "## Limits" in card and "Seed" in card
    assert json.loads((folder / "run.json").read_text())["results"]
    monkeypatch.setenv("COMPEER_CACHE", str(tmp_path))
    assert converted(folder, locate()).stat().st_size < 24_000_000


def test_the_thinking_adapter_of_the_base_is_free_for_any_use_and_has_a_card() -> None:
    folder = Path(shipped.__file__).parent / "supporter-1.5b"
    tensors = read_tensors(folder / shipped.WEIGHTS)
    assert len(tensors) == 28 * 7 * 2 and {min(one.shape) for one in tensors.values()} == {8}
    assert (folder / shipped.WEIGHTS).stat().st_size < 20_000_000
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "license: cc-by-4.0" in card and "Limits first" in card and "seed 1" in card
    assert hashlib.sha256((folder / shipped.WEIGHTS).read_bytes()).hexdigest() in card
    assert shipped.base_of(folder).sha256 == BASE.sha256
