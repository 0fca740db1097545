"""Judges by name, and two judges as one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.reward.groups import groups, varied

from compeer.errors import UserError
from compeer.models.endpoint import Endpoint
from compeer.reward.case import Case
from compeer.reward.chat_judge import ChatJudge
from compeer.reward.judge import Judge, Judgement, Orders, PairVerdict, StepVerdict
from compeer.reward.local_judge import LocalJudge
from compeer.reward.remote_judge import RemoteJudge
from compeer.reward.spec import SeparateJudge, open_judge
from compeer.reward.verdict import Kind


class TestForms:
    def test_a_transformers_folder(self, tmp_path: Path) -> None:
        judge = open_judge(f"hf:{tmp_path}", batch=3, explain=True)
        assert isinstance(judge, LocalJudge)
        assert (judge.path, judge.adapter, judge.kind) == (str(tmp_path), None, "unified")
        assert (judge.batch, judge.explain) == (3, True)
        with_adapter = open_judge("hf:some/model+some/adapter", kind="orm")
        assert isinstance(with_adapter, LocalJudge)
        assert (with_adapter.path, with_adapter.adapter, with_adapter.kind) == ("some/model", "some/adapter", "orm")
        plus = tmp_path / "c++"
        plus.mkdir()
        assert open_judge(f"hf:{plus}").name == f"hf:{plus}"

    def test_the_embedded_model_works_precisely(self, tmp_path: Path) -> None:
        judge = open_judge("embedded", kind="prm")
        assert isinstance(judge, ChatJudge)
        assert (judge.name, judge.kind, judge.model.precise) == ("embedded", "prm", True)  # type: ignore[attr-defined]
        adapter = tmp_path / "judge.gguf"
        adapter.write_bytes(b"")
        assert open_judge(f"embedded+{adapter}").name == "embedded:small+judge.gguf"
        (tmp_path / "judge.json").write_text('{"kind": "orm"}')
        assert open_judge(f"embedded+{adapter}").kind == "orm"
        with pytest.raises(UserError, match="no adapter"):
            open_judge("embedded+lost.gguf")

    def test_a_server(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        judge = open_judge("openai:gpt", base_url="http://127.0.0.1:9/v1")
        assert isinstance(judge, ChatJudge)
        assert isinstance(judge.model, Endpoint)
        assert (judge.model.model, judge.model.concurrency, judge.concurrency) == ("gpt", 32, 32)
        with pytest.raises(UserError, match="--base-url"):
            open_judge("openai:gpt")

    def test_a_served_judge(self) -> None:
        assert isinstance(open_judge("http://127.0.0.1:8020"), RemoteJudge)
        assert isinstance(open_judge("https://judge.example.org"), RemoteJudge)

    def test_two_judges(self, tmp_path: Path) -> None:
        judge = open_judge(f"hf:{tmp_path},openai:gpt", base_url="http://127.0.0.1:9/v1")
        assert isinstance(judge, SeparateJudge)
        assert (judge.kind, judge.prm.kind, judge.orm.kind) == ("unified", "prm", "orm")
        comma = tmp_path / "a,b"
        comma.mkdir()
        assert isinstance(open_judge(f"hf:{comma}"), LocalJudge)

    @pytest.mark.parametrize(
        "spec", ["", "hf:", "openai:", "embedded+", "gpt-4o", "ftp://x", "a,b,c", "hf:x,", ",hf:x"]
    )
    def test_anything_else_is_refused_with_the_forms(self, spec: str) -> None:
        with pytest.raises(
            UserError, match=r"(?s)does not name a judge.*hf:DIR.*embedded.*openai:MODEL.*http://.*PRM,ORM"
        ):
            open_judge(spec)

    def test_two_judges_are_not_a_baseline(self) -> None:
        with pytest.raises(UserError, match="does not name a judge"):
            open_judge("hf:x,hf:y", kind="prm")


class Fixed:
    """A judge that says the same of everything, or fails."""

    def __init__(self, kind: Kind, failure: str | None = None) -> None:
        self.kind, self.name, self.failure, self.closed = kind, f"fixed-{kind}", failure, False

    async def identity(self) -> Mapping[str, Any]:
        return {"kind": self.kind, "weights": "w"}

    async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
        yes = (StepVerdict(True), StepVerdict(True), StepVerdict(True))
        pairs = (PairVerdict(True, "both"),)
        found = {"steps": yes} if self.kind == "prm" else {"pairs": pairs}
        shown: dict[str, Any] = {"failure": self.failure} if self.failure else found
        return [Judgement(id=case.id, complete=case.complete, tokens=5, **shown) for case in cases]

    async def close(self) -> None:
        self.closed = True


class TestSeparate:
    def test_steps_of_the_one_and_pairs_of_the_other(self, tiny_model_dir: Path) -> None:
        cases = varied(groups(2, 3, "en"))
        folder = str(tiny_model_dir)
        together = open_judge(f"hf:{folder},hf:{folder}", device="cpu")
        apart: list[Judge] = [open_judge(f"hf:{folder}", kind=kind, device="cpu") for kind in ("prm", "orm")]  # type: ignore[arg-type]

        async def scenario() -> list[list[Judgement]]:
            return [await judge.judge(cases, orders="both") for judge in (together, *apart)]

        both, steps, pairs = asyncio.run(scenario())
        for joined, step, pair in zip(both, steps, pairs, strict=True):
            assert (joined.steps, joined.pairs) == (step.steps, pair.pairs)
            assert joined.tokens == step.tokens + pair.tokens
            assert joined.complete == step.complete

    @pytest.mark.parametrize("failing", ["prm", "orm"])
    def test_when_one_fails_the_other_counts(self, failing: str) -> None:
        kinds: tuple[Kind, ...] = ("prm", "orm")
        prm, orm = (Fixed(kind, "it is gone" if kind == failing else None) for kind in kinds)
        (found,) = asyncio.run(SeparateJudge(prm, orm).judge(groups(1, 1, "en")))
        assert found.failure == "it is gone"
        assert found.total == (-1 if failing == "prm" else 3)

    def test_the_order_of_the_two_matters(self) -> None:
        with pytest.raises(UserError, match="a prm and an orm, in this order"):
            SeparateJudge(Fixed("orm"), Fixed("prm"))

    def test_identity_and_end_are_those_of_both(self) -> None:
        prm, orm = Fixed("prm"), Fixed("orm")
        judge = SeparateJudge(prm, orm)
        told = dict(asyncio.run(judge.identity()))
        assert (told["prm"], told["orm"]) == ({"kind": "prm", "weights": "w"}, {"kind": "orm", "weights": "w"})
        asyncio.run(judge.close())
        assert prm.closed
        assert orm.closed
