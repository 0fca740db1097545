"""What is refused on the labelling pages: it is logged, and nothing is changed."""

from __future__ import annotations

import io
import re
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from tests.studio.labelling import Page, begin, hand_in, item, png
from tests.studio.serving import TOKEN, browser_of, csrf, enter, studio

from compeer.cer.item import PastTurn
from compeer.dialogue import write_rows
from compeer.people import tables as known
from compeer.people.invitations import invite, new_link, pause
from compeer.people.labelling import create_project
from compeer.people.store import Store, open_store
from compeer.reward.judge import Judgement, PairVerdict, Scored, StepVerdict
from compeer.studio.settings import RateLimit, StudioLimits

ALL = {"history": True, "emotion": True, "strategy": True, "preference": "candidate"}


class Home:
    """A guarded studio with one project: its store, its people's links, and its address."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.store: Store = open_store(folder / "labels.db")
        (folder / "pictures").mkdir()
        (folder / "pictures" / "face.png").write_bytes(png(30, 20, 90))
        (folder / "secret.png").write_bytes(png(10, 10, 90))
        (folder / "pictures" / "link.png").symlink_to(folder / "pictures" / "face.png")
        seen = (PastTurn("seeker", "Look at me.", ("face.png", "link.png")),)
        items = [item(n, history=seen) for n in range(6)]
        made = create_project(self.store, "pilot", items, images=folder / "pictures", audit_share=0.0)
        self.project = made.project.id
        self.tokens = {name: invite(self.store, self.project, name).token for name in ("anna", "ben", "cleo")}
        self.settings = {"db": str(folder / "labels.db"), "public": "http://127.0.0.1:1", "token": TOKEN, **settings}

    def state(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything that somebody could change: all tables but the log."""
        names = ("projects", "items", "annotators", "leases", "votes", "skips", "drafts", "audit_draws", "forms")
        with self.store.read() as db:
            return {name: [tuple(row) for row in db.execute(getattr(known, name).select())] for name in names}

    def refused(self) -> list[str]:
        with self.store.read() as db:
            return [row.kind for row in db.execute(known.refusals.select().order_by(known.refusals.c.id))]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    found = Home(tmp_path, items=(tmp_path / "pictures",))
    yield found
    found.store.close()


@pytest.fixture
def address(home: Home) -> Iterator[str]:
    with studio(home.folder / "data", **home.settings) as found:
        yield found


def test_a_forged_link_is_nobody(home: Home, address: str, caplog: pytest.LogCaptureFixture) -> None:
    before = home.state()
    with browser_of(address) as client:
        for forged in ("x", home.tokens["anna"][:-1], home.tokens["anna"].swapcase(), "' OR 1=1 --", "é" * 43):
            assert enter(client, forged).status_code == 403
            for path in ("/label", "/label/work", "/label/items/1", f"/label/projects/{home.project}"):
                assert client.get(path).status_code == 403, path
    assert home.state() == before
    assert home.refused() == ["token"] * 5
    assert caplog.text.count("a personal link that is not known") == 5 and home.tokens["anna"] not in caplog.text


def test_only_what_is_mine_can_be_seen_or_changed(home: Home, address: str, caplog: pytest.LogCaptureFixture) -> None:
    with browser_of(address) as anna, browser_of(address) as ben:
        page = begin(anna, home.tokens["anna"])
        hand_in(anna, page, ALL)
        mine = Page(anna.get("/label/work").text)
        his = begin(ben, home.tokens["ben"])
        assert his.item == page.item and mine.item != his.item  # begun items come first
        before, home_page = home.state(), f"/label/projects/{home.project}"
        token = {"csrf": csrf(his.text)}
        theirs = f"/label/items/{mine.item}"
        answers = {"form": "f" * 16, **token, **mine.answers(ALL)}
        denied = [
            ben.get(theirs),
            ben.post(theirs, data=answers),
            ben.post(f"{theirs}/draft", json={"answers": {}}, headers={"x-csrf-token": token["csrf"]}),
            ben.get(f"{theirs}/skip"),
            ben.post(f"{theirs}/skip", data={"form": "g" * 16, **token}),
            ben.get(f"{theirs}/pictures/0"),
            ben.get("/label/items/987654321"),
            ben.get(f"/label/items/{2**70}"),
            *(
                ben.get(path)
                for path in ("/label/new", home_page, f"{home_page}/agreement", f"{home_page}/disagreements")
            ),
            ben.get(f"{home_page}/export/cer"),
            ben.post(f"{home_page}/invite", data={"names": "mallory", "form": "x", **token}),
            ben.post(f"{home_page}/people/1", data={"action": "revoke", "form": "x", **token}),
        ]
        assert [answer.status_code for answer in denied] == [403] * len(denied)
        for answer in denied:
            assert "CAND" not in answer.text and "anna" not in answer.text
        assert home.state() == before
        assert home.refused() == ["not-yours"] * 8 + ["role"] * 7
        assert caplog.text.count("refused: not-yours") == 8 and caplog.text.count("a page of the coordinator") == 7


def test_a_form_works_once(home: Home, address: str, caplog: pytest.LogCaptureFixture) -> None:
    with browser_of(address) as anna, browser_of(address) as desk:
        page = begin(anna, home.tokens["anna"])
        assert hand_in(anna, page, ALL).status_code == 303
        before = home.state()
        again = hand_in(anna, page, ALL | {"history": False})
        assert again.status_code == 409 and "already submitted" in again.text
        assert (
            anna.post(
                f"/label/items/{page.item}/skip", data={"csrf": csrf(page.text), "form": page.field("form")}
            ).status_code
            == 409
        )
        assert home.state() == before and home.refused() == ["form", "form"]

        enter(desk)
        overview = desk.get(f"/label/projects/{home.project}").text
        form = {"csrf": csrf(overview), "form": Page(overview).field("form")}
        assert (
            desk.post(f"/label/projects/{home.project}/people/99", data={"action": "link", **form}).status_code == 404
        )
        overview = desk.get(f"/label/projects/{home.project}").text
        form = {"csrf": csrf(overview), "form": Page(overview).field("form")}
        invited = desk.post(f"/label/projects/{home.project}/invite", data={"names": "dora", **form})
        assert invited.status_code == 200 and "/enter/" in invited.text
        before = home.state()
        for path, data in (
            ("invite", {"names": "eve"}),
            ("people/1", {"action": "revoke"}),
            ("people/1", {"action": "link"}),
        ):
            assert desk.post(f"/label/projects/{home.project}/{path}", data=data | form).status_code == 409
        assert home.state() == before and caplog.text.count("a form that was sent before") == 3


def test_answers_that_do_not_fit_change_nothing(home: Home, address: str) -> None:
    with browser_of(address) as anna:
        page = begin(anna, home.tokens["anna"])
        base = {"csrf": csrf(page.text), "form": page.field("form")}
        right = page.answers(ALL)
        before = home.state()
        for wrong in (
            {},
            {**right, "history": "maybe"},
            {**right, "preference": "candidate"},
            {**right, "note": "x" * 10_001},
            {**right, "seconds": "soon"},
            {name: right[name] for name in ("history", "emotion", "strategy")},
        ):
            assert anna.post(f"/label/items/{page.item}", data=base | wrong).status_code == 422
        for draft in (
            {"answers": {"history": "x"}},
            {"answers": []},
            {"answers": {}, "note": 3},
            {"answers": {"preference": []}},
            {},
        ):
            sent = anna.post(f"/label/items/{page.item}/draft", json=draft, headers={"x-csrf-token": base["csrf"]})
            assert sent.status_code == 422, draft
        assert home.state() == before
        assert anna.post(f"/label/items/{page.item}", data=base | right | {"seconds": "nan"}).status_code == 303


def test_pictures_come_from_the_items_folder_alone(home: Home, address: str, caplog: pytest.LogCaptureFixture) -> None:
    with browser_of(address) as anna, browser_of(address) as desk:
        page = begin(anna, home.tokens["anna"])
        here = f"/label/items/{page.item}/pictures"
        assert anna.get(f"{here}/0").headers["content-type"] == "image/png"
        link = home.folder / "pictures" / "link.png"
        link.unlink()
        link.symlink_to(home.folder / "secret.png")  # after the project was made
        before = home.state()
        assert anna.get(f"{here}/1").status_code == 404 and anna.get(f"{here}/7").status_code == 404
        for odd in ("..%2f..%2fsecret.png", "../../../secret.png", "-1", "0%00", "face.png"):
            assert anna.get(f"{here}/{odd}").status_code in (404, 422), odd
        assert home.refused().count("path") >= 2 and "refused: path" in caplog.text

        enter(desk)
        for n, name in enumerate(("../secret.png", str(home.folder / "secret.png"), "a/../../secret.png", "link.png")):
            source = home.folder / "pictures" / f"items-{n}.jsonl"
            write_rows(source, [item(0, history=(PastTurn("seeker", "hi", (name,)),))])
            for given in ({"path": str(source)}, {"images": str(home.folder / "pictures"), "file": source}):
                answer = make(desk, f"p{n}", **given)
                assert answer.status_code == 422 and "lies outside" in answer.text, name
        outside = make(desk, "p", path=str(home.folder / "secret.png"))
        assert outside.status_code == 422 and "only files in these folders" in outside.text
        assert make(desk, "p", path="/etc/passwd").status_code == 422
        assert make(desk, "p", images="/", file=home.folder / "pictures" / "items-0.jsonl").status_code == 422
        assert home.state() == before and caplog.text.count("nothing made") == 11


def make(desk: httpx.Client, name: str, file: Path | None = None, **given: str) -> httpx.Response:
    page = desk.get("/label/new").text
    data = {"csrf": csrf(page), "form": Page(page).field("form"), "name": name, **given}
    return desk.post("/label/new", data=data, files={"file": file.open("rb")} if file else {"none": b""})


def test_a_new_project_says_what_is_wrong_with_its_items(home: Home, address: str) -> None:
    with browser_of(address) as desk:
        enter(desk)
        source = home.folder / "pictures" / "items.jsonl"
        source.write_text('{"id": "a"}\n')
        assert "items.jsonl, line 1 (record a)" in make(desk, "p", file=source).text
        write_rows(source, [item(n) for n in range(3)])
        assert "A project or arena named pilot already exists" in make(desk, "pilot", path=str(source)).text
        assert "Choose a file" in make(desk, "p").text
        made = make(desk, "named", path=str(source))
        assert made.status_code == 303 and "named" in desk.get(made.headers["location"]).text


def test_paused_replaced_and_the_coordinator_of_another_project(home: Home, address: str) -> None:
    other = create_project(home.store, "other", [item(n) for n in range(2)]).project.id
    link = invite(home.store, other, "olga", "coordinator").token
    with browser_of(address) as anna, browser_of(address) as olga:
        page = begin(anna, home.tokens["anna"])
        pause(home.store, home.project, "anna")
        assert hand_in(anna, page, ALL).status_code == 403 and "is paused" in anna.get("/label/work").text
        pause(home.store, home.project, "anna", False)
        assert hand_in(anna, page, ALL).status_code == 303
        new_link(home.store, home.project, "anna")
        assert anna.get("/label/work").status_code == 403
        enter(olga, link)
        assert "other" in olga.get("/label").text and "pilot" not in olga.get("/label").text
        assert olga.get(f"/label/projects/{other}").status_code == 200
        assert olga.get(f"/label/projects/{home.project}/export/cer").status_code == 403
        assert olga.get("/label/new").status_code == 403 and olga.get("/label/work").status_code == 403
        assert home.refused() == ["paused", "role"]


def test_downloads_and_a_judge_beside_the_audit(home: Home, address: str) -> None:
    with browser_of(address) as anna, browser_of(address) as ben, browser_of(address) as desk:
        for client, name in ((anna, "anna"), (ben, "ben")):
            hand_in(client, begin(client, home.tokens[name]), ALL)
        enter(desk)
        base = f"/label/projects/{home.project}/export"
        closed = desk.get(f"{base}/cer?anonymous=true")
        rows = [msgspec.json.decode(line) for line in closed.content.splitlines()]
        assert [row["labels"] for row in rows] == [ALL] and {vote["annotator"] for vote in rows[0]["votes"]} == {
            "annotator-1", "annotator-2",
        }  # fmt: skip
        assert 'filename="pilot.jsonl"' in closed.headers["content-disposition"]
        assert len(desk.get(f"{base}/cer?everything=true").content.splitlines()) == 6
        for form, files in (("label-studio", {"tasks.json", "config.xml"}), ("potato", {"config.yaml"})):
            packed = zipfile.ZipFile(io.BytesIO(desk.get(f"{base}/{form}").content))
            assert files <= {Path(name).name for name in packed.namelist()}
        page = desk.get(f"/label/projects/{home.project}/agreement").text
        verdicts = tuple(StepVerdict(value) for value in (True, False, True))
        judged = Judgement(id="d0#1", complete=True, steps=verdicts, pairs=(PairVerdict(True, "candidate"),))
        score = Scored(id="d0#1", judgement=judged, parts=None, total=None)
        send = {"url": f"/label/judgements/{home.project}", "data": {"csrf": csrf(page)}}
        wrong = desk.post(**send, files={"file": b"nonsense"})
        assert wrong.status_code == 422 and "could not be read" in wrong.text
        told = desk.post(**send, files={"file": msgspec.json.encode(score)})
        shares = re.findall(r'<td class="number">(?:–|([0-9.]+ %) <span[^>]*>([0-9 /]+)</span>)</td></tr>', told.text)
        assert shares == [("100.0 %", "1 / 1"), ("0.0 %", "0 / 1"), ("100.0 %", "1 / 1"), ("100.0 %", "1 / 1")]


def test_forty_people_behind_one_address_are_not_held_up(tmp_path: Path) -> None:
    """Rates are a person's where a person is known; and coming in at once costs nobody a try."""
    home = Home(
        tmp_path,
        limits=StudioLimits(person=RateLimit(30, 5.0), address=RateLimit(60, 0.001), enter=RateLimit(3, 0.001)),
    )
    tokens = [invite(home.store, home.project, f"p{n}").token for n in range(12)]
    answers: list[int] = []

    def work(token: str) -> None:
        with browser_of(address) as client:
            answers.append(enter(client, token).status_code)
            answers.extend(client.get("/label").status_code for _ in range(8))

    with studio(home.folder / "data", **home.settings) as address:
        threads = [threading.Thread(target=work, args=(token,)) for token in tokens]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(set(answers)) == [200, 303] and len(answers) == 12 * 9
        with browser_of(address) as hasty, browser_of(address) as stranger:
            enter(hasty, home.tokens["anna"])
            assert 429 in [hasty.get("/label").status_code for _ in range(40)]
            assert [enter(stranger, "guess").status_code for _ in range(4)] == [403, 403, 403, 429]
    home.store.close()
