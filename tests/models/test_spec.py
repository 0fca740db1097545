"""Naming a model: every form, what it opens, and what a wrong one says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from compeer.errors import UserError
from compeer.models import shipped
from compeer.models.embedded import Embedded
from compeer.models.endpoint import Endpoint
from compeer.models.local import Local
from compeer.models.request import ModelError, Patience
from compeer.models.spec import default_prompt, open_model
from compeer.models.weights import BASE, SMALL


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COMPEER_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_the_default_is_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(open_model(), Embedded)
    monkeypatch.setenv("COMPEER_MODEL", "hf:somewhere")
    assert isinstance(open_model(), Local)
    assert isinstance(open_model("embedded"), Embedded), "what is said goes before what is set"


def test_embedded_with_an_adapter(tmp_path: Path) -> None:
    adapter = tmp_path / "mine.gguf"
    adapter.write_bytes(b"GGUF")
    model = open_model(f"embedded:small+{adapter}")
    assert isinstance(model, Embedded)
    assert (model.adapter, model.name, model.sees) == (adapter, "embedded:small+mine.gguf", False)
    with pytest.raises(ModelError, match=r"There is no adapter /no/such\.gguf"):
        open_model("embedded+/no/such.gguf")


class TestWhichWeights:
    @pytest.fixture
    def base(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A file that counts as the 1.5B base, in a cache of its own."""
        from compeer.models import weights

        monkeypatch.delenv("COMPEER_WEIGHTS", raising=False)
        monkeypatch.setenv("COMPEER_CACHE", str(tmp_path))
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(weights, "identify", lambda path: BASE if path.name == BASE.file else SMALL)
        return tmp_path / BASE.file

    def test_embedded_is_the_base_where_it_is_here_and_else_the_small_one(self, base: Path) -> None:
        absent, plain = open_model("embedded"), open_model("embedded:plain")
        assert isinstance(absent, Embedded) and isinstance(plain, Embedded)
        assert (absent.name, absent.weights, absent.stands_in) == ("embedded:small", SMALL, True)
        assert (plain.name, plain.weights, plain.adapter) == ("embedded:small:plain", SMALL, None)
        assert default_prompt("embedded") == "brief"
        base.write_bytes(b"GGUF")
        here = open_model("embedded")
        assert isinstance(here, Embedded)
        assert (here.name, here.weights, here.stands_in) == ("embedded", BASE, False)
        assert here.adapter == shipped.adapter("supporter", BASE)
        assert default_prompt("embedded") == ("brief" if here.adapter else "full")
        assert default_prompt("embedded:plain") == "full"
        small = open_model("embedded:small")
        assert isinstance(small, Embedded) and (small.weights, small.stands_in) == (SMALL, False)
        local = open_model("hf:embedded:small")
        assert isinstance(local, Local) and local.path == "embedded:small"

    def test_an_adapter_brings_its_base(self, base: Path, tmp_path: Path) -> None:
        folder = tmp_path / "mine"
        folder.mkdir()
        (folder / "adapter_model.safetensors").write_bytes(b"")
        (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "embedded"}')
        found = []
        for record in (None, BASE, SMALL):
            if record:
                (folder / "base.json").write_text(f'{{"name": "x", "sha256": "{record.sha256}"}}')
            model = open_model(f"embedded+{folder}")
            assert isinstance(model, Embedded)
            found.append(model.weights)
        assert found == [SMALL, BASE, SMALL], "adapters of earlier versions belong to the small model"

    def test_a_gguf_file(self, tmp_path: Path) -> None:
        file, adapter = tmp_path / "any+model.gguf", tmp_path / "own.gguf"
        file.write_bytes(b"GGUF")
        adapter.write_bytes(b"GGUF")
        model, adapted = open_model(f"gguf:{file}"), open_model(f"gguf:{file}+{adapter}")
        assert isinstance(model, Embedded) and isinstance(adapted, Embedded)
        assert (model.weights, model.adapter, model.name) == (file, None, "gguf:any+model.gguf")
        assert (adapted.weights, adapted.adapter) == (file, adapter)
        assert default_prompt(f"gguf:{file}") == "full"
        with pytest.raises(ModelError, match=r"There is no file /no/such\.gguf"):
            open_model("gguf:/no/such.gguf")


def test_a_transformers_model_with_and_without_an_adapter(tmp_path: Path) -> None:
    model = open_model("hf:org/name")
    assert isinstance(model, Local)
    assert (model.path, model.adapter, model.name) == ("org/name", None, "hf:org/name")
    (tmp_path / "adapter").mkdir()
    model = open_model(f"hf:org/name+{tmp_path}/adapter")
    assert isinstance(model, Local)
    assert (model.path, model.adapter) == ("org/name", f"{tmp_path}/adapter")
    assert model.name == f"hf:org/name+{tmp_path}/adapter"
    with pytest.raises(ModelError, match="There is no adapter /no/such/adapter"):
        open_model("hf:org/name+/no/such/adapter")


def test_a_folder_with_a_plus_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "a+b"
    folder.mkdir()
    model = open_model(f"hf:{folder}")
    assert isinstance(model, Local)
    assert (model.path, model.adapter) == (str(folder), None)


def test_an_endpoint_takes_its_address_from_the_option_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match=r"openai:m needs the address of its server.*--base-url.*OPENAI_BASE_URL"):
        open_model("openai:m")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1/")
    monkeypatch.setenv("OPENAI_API_KEY", "set")
    patience = Patience(attempts=2)
    model = open_model("openai:org/m:tag", concurrency=3, patience=patience)
    assert isinstance(model, Endpoint)
    assert (model.model, model.base_url, model.api_key) == (
        "org/m:tag",
        "http://127.0.0.1:8000/v1",
        "set",
    )
    assert (model.concurrency, model.patience) == (3, patience)
    other = open_model("openai:m", base_url="http://127.0.0.1:9/v1", api_key="said")
    assert isinstance(other, Endpoint)
    assert (other.base_url, other.api_key) == ("http://127.0.0.1:9/v1", "said")


@pytest.mark.parametrize(
    "spec",
    ["gpt-4o", "embeded", "embedded:x", "embedded+", "hf:", "openai:", "gguf:", "hf", "openai", ":", "vllm:m"],
)
def test_anything_else_says_what_there_is(spec: str) -> None:
    with pytest.raises(UserError) as caught:
        open_model(spec)
    assert repr(spec) in str(caught.value)
    for form in ("embedded", "gguf:PATH[+ADAPTER]", "hf:DIR_OR_NAME[+ADAPTER]", "openai:MODEL"):
        assert form in str(caught.value)


def test_opening_a_model_loads_nothing_heavy() -> None:
    code = (
        "import sys; from compeer.models import open_model;"
        "open_model('embedded'); open_model('hf:org/name'); open_model('openai:m', base_url='http://h/v1');"
        "heavy = {'torch', 'transformers', 'xllamacpp', 'llguidance', 'peft'} & set(sys.modules);"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
