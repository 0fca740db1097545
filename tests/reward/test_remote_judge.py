"""Between a service and its clients: pictures on their way, pieces that keep groups together, answers that are usable."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.reward.judge_process import JudgeProcess, gold_cases
from tests.reward.rule_judge import RuleJudge

from compeer.cer.item import PastTurn
from compeer.models.request import Patience, image_bytes
from compeer.reward.case import Case, split_by_history, trial_case
from compeer.reward.judge import Judgement, failed_judgement, reply_problem
from compeer.reward.remote_judge import JudgeRequest, RemoteJudge, data_url, with_pictures
from compeer.reward.service import Refused, checked_picture

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def server() -> Iterator[JudgeProcess]:
    with JudgeProcess() as process:
        yield process


def asked(url: str, cases: list[Case]) -> list[Judgement]:
    async def ask() -> list[Judgement]:
        judge = RemoteJudge(url, patience=Patience(attempts=1))
        try:
            return await judge.judge(cases)
        finally:
            await judge.close()

    return asyncio.run(ask())


class TestPictures:
    CASE = msgspec.structs.replace(trial_case("good", "en"), history=(PastTurn("seeker", "Look.", ("dot.png",)),))

    def shown(self, path: str) -> Case:
        return msgspec.structs.replace(self.CASE, history=(PastTurn("seeker", "Look.", (path,)),))

    def test_they_travel_inside_the_request(self, tmp_path: Path) -> None:
        (tmp_path / "dot.png").write_bytes(DOT)
        sent = with_pictures(self.shown(str(tmp_path / "dot.png")), data_url)
        assert sent.history[0].images[0].startswith("data:image/png;base64,")
        assert image_bytes(checked_picture(sent.history[0].images[0], None)) == DOT

    def test_no_file_of_the_server_is_opened_by_name(self, server: JudgeProcess, tmp_path: Path) -> None:
        (tmp_path / "dot.png").write_bytes(DOT)
        case = self.shown(str(tmp_path / "dot.png"))
        status, text = server.post("/v1/judge", msgspec.json.encode(JudgeRequest([case])))
        assert status == 400 and "opens no files" in text
        assert asked(server.url, [case])[0].failure is None  # RemoteJudge sends it along
        gone = asked(server.url, [self.shown("/nowhere/dot.png"), trial_case("good", "en")])
        assert gone[0].failure is not None and gone[0].failure.startswith("refused: The image /nowhere/dot.png")
        assert gone[1].failure is None

    def test_only_the_allowed_folder_can_be_read(self, tmp_path: Path) -> None:
        inside, outside = tmp_path / "pictures", tmp_path / "secret"
        inside.mkdir()
        outside.mkdir()
        (inside / "dot.png").write_bytes(DOT)
        (outside / "dot.png").write_bytes(DOT)
        (inside / "link.png").symlink_to(outside / "dot.png")
        found = str((inside / "dot.png").resolve())
        assert checked_picture("dot.png", inside) == checked_picture(str(inside / "dot.png"), inside) == found
        for path in (
            "../secret/dot.png",
            str(outside / "dot.png"),
            "link.png",
            "nothing.png",
            "\0",
            "http://x/dot.png",
        ):
            with pytest.raises(Refused, match="There is no picture"):
                checked_picture(path, inside)

    @pytest.mark.parametrize(
        "url", ["data:text/html;base64,QQ==", "data:image/png;base64,!!!", "data:image/svg;base64,QQ=="]
    )
    def test_data_that_is_no_picture_is_refused(self, url: str) -> None:
        with pytest.raises(Refused, match=r"PNG, JPEG|not base64"):
            checked_picture(url, None)


class TestParts:
    def test_pieces_end_where_the_history_changes(self) -> None:
        cases = gold_cases(24, candidates=4)
        for size in (1, 3, 4, 5, 6, 100):
            pieces = split_by_history(cases, size)
            assert [place for piece in pieces for place in piece] == list(range(24))
            assert all(0 < len(piece) <= size for piece in pieces)
            if size >= 4:
                assert all(piece.start % 4 == 0 for piece in pieces)
        assert split_by_history([], 4) == []

    def test_what_cannot_be_a_judgement_of_the_case_is_noticed(self) -> None:
        case, judge = trial_case("good", "en"), RuleJudge()
        (good,) = asyncio.run(judge.judge([case]))
        assert reply_problem([case], [good]) is None
        assert reply_problem([case], [failed_judgement(case, "time", "late")]) is None
        replace = msgspec.structs.replace
        odd = replace(good.steps[0], p=1.5)
        nan = replace(good.steps[0], p=float("nan"))
        for answers, says in (
            ([], "0 judgements for 1 cases"),
            ([replace(good, id="other")], "a judgement of 'other'"),
            ([replace(good, complete=False)], "another result on the format"),
            ([replace(good, steps=(odd, *good.steps[1:]))], "a probability outside"),
            ([replace(good, steps=(nan, *good.steps[1:]))], "a probability outside"),
        ):
            assert says in (reply_problem([case], answers) or "")
        bare = replace(case, steps=(None, None, None))
        assert "a step that is not there" in (reply_problem([bare], [good]) or "")

    def test_the_trial_cases_follow_the_contract(self) -> None:
        for case in (trial_case(quality, language) for quality in ("good", "bad") for language in ("en", "zh")):
            assert case.complete and all(case.steps) and case.comparable
