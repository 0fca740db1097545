"""What a page of the arena tells: two texts, and nothing about who wrote them. And who may see which page."""

from __future__ import annotations

import html
import re
from pathlib import Path

import httpx
import pytest
from tests.people.arena_material import MODELS, cases, replies
from tests.studio.labelling import item
from tests.studio.serving import TOKEN, begin_in, browser_of, csrf, enter, studio

from compeer.dialogue import write_rows
from compeer.people.arena import create_arena
from compeer.people.arena_cases import Reply
from compeer.people.arena_results import counted_votes
from compeer.people.invitations import invite
from compeer.people.labelling import create_project
from compeer.people.store import open_store

TEXT = re.compile(r'<p class="said" dir="auto" lang="\w+">(.*?)</p>', re.S)


def hand_in(client: httpx.Client, page: str, choice: str) -> httpx.Response:
    name = re.search(r'id="answer".*?action="/arena/compare/([^"]+)"', page, re.S)
    fields = {key: re.search(rf'name="{key}" value="([^"]*)"', page) for key in ("form", "shown")}
    assert name and all(fields.values())
    sent = {key: found.group(1) for key, found in fields.items() if found}
    return client.post(f"/arena/compare/{name.group(1)}", data={"csrf": csrf(page), "choice": choice, **sent})


def skeleton(answer: httpx.Response) -> str:
    """A whole answer without what differs at random or by the case: texts, random names, times, own counts."""
    page = answer.text
    name = re.search(r"/arena/compare/([\w-]+)", page)
    assert name
    page = page.replace(name.group(1), "NAME")
    page = TEXT.sub("TEXT", page)
    page = re.sub(r'(name="(?:form|csrf|shown)" (?:value|content))="[^"]*"', r"\1=RANDOM", page)
    page = re.sub(r"Comparison \d+|\d+ today|\d+ of \d+ left", "COUNT", page)
    page = re.sub(r'<img class="shot"[^>]*>\s*', "PICTURE", page)
    headers = sorted((key, value) for key, value in answer.headers.items() if key not in ("date", "content-length"))
    return f"{headers}\n{page}"


@pytest.mark.parametrize("reasoning", [False, True])
def test_nothing_in_any_answer_tells_the_models_apart(tmp_path: Path, reasoning: bool) -> None:
    store, given = open_store(tmp_path / "a.db"), cases(6, tmp_path)
    said = replies(given)
    hostile = "<script>alert(1)</script> {{ 7*7 }} \"'><b>"
    said[0] = Reply(case=said[0].case, model=said[0].model, response=hostile, reasoning=said[0].reasoning)
    made = create_arena(store, "blind", given, said, images=tmp_path, seed=1, votes=1, show_reasoning=reasoning)
    author = {(reply.case, reply.response): reply.model for reply in said}
    told = {case.history[0].text: case.id for case in given}
    token = invite(store, made.arena.id, "Anna").token
    seen: list[tuple[str, str]] = []
    forms: dict[tuple[str, str], set[str]] = {}
    names: list[str] = []
    with studio(tmp_path / "data", db=str(tmp_path / "a.db")) as address, browser_of(address) as client:
        page = begin_in("arena", client, token)
        assert "116 123" in client.get("/arena", headers={"accept-language": "en-GB"}).text, (
            "the nearest helpline first"
        )
        while 'id="answer"' in page.text:
            texts = [html.unescape(one) for one in TEXT.findall(page.text)]
            case = told[texts[0]]
            left, right = (author[case, text] for text in texts[3:5])
            seen.append((left, right))
            names += re.findall(r'action="/arena/compare/([\w-]+)"', page.text)
            forms.setdefault((left, right), set()).add(skeleton(page))
            answers = [page, client.get(re.findall(r'src="(/arena/[^"]+)"', page.text)[0])]
            answers.append(hand_in(client, page.text, "first"))
            for answer in answers:
                whole = f"{answer.url} {answer.headers} {answer.content.decode(errors='replace')}".lower()
                assert not [name for name in MODELS if name.lower() in whole]
                assert "<script>alert" not in whole
            page = client.get("/arena/work")
        assert all(name in page.text for name in MODELS), "after the last one the names are told with the result"
    assert len(seen) == 36 == len(counted_votes(store, made.arena.id))
    assert [(one.left, one.right) for one in counted_votes(store, made.arena.id)].count(seen[0]) == seen.count(seen[0])
    assert all(abs(seen.count((one, two)) - seen.count((two, one))) <= 1 for one in MODELS for two in MODELS)
    # pages differ only by how many pictures a case has, whoever stands where
    kinds = set().union(*forms.values())
    assert len(kinds) == 2 and len({kind.replace("PICTUREPICTURE", "PICTURE") for kind in kinds}) == 1
    assert len(set(names)) == 36 and {len(name) for name in names} == {16}


def test_links_open_one_room_and_coordinators_one_arena(tmp_path: Path) -> None:
    store, given = open_store(tmp_path / "a.db"), cases(2)
    first, second = (create_arena(store, name, given, replies(given)).arena.id for name in ("one", "two"))
    labelling = create_project(store, "labels", [item(0)]).project.id
    tokens = {
        "annotator": invite(store, first, "Anna").token,
        "coordinator": invite(store, first, "Cora", "coordinator").token,
        "labeller": invite(store, labelling, "Lea").token,
        "labels": invite(store, labelling, "Lars", "coordinator").token,
        "studio": TOKEN,
    }
    may = {
        "annotator": {"/arena"},
        "coordinator": {"/arena", f"/arena/arenas/{first}", f"/arena/arenas/{first}/files/votes.jsonl"},
        "labeller": {"/label"},
        "labels": {"/label", f"/label/projects/{labelling}"},
    }
    paths = ["/arena", "/arena/new", f"/arena/arenas/{first}", f"/arena/arenas/{second}", "/label", "/label/new",
             f"/arena/arenas/{first}/files/votes.jsonl", f"/label/projects/{labelling}"]  # fmt: skip
    may["studio"] = set(paths)
    settings = {"db": str(tmp_path / "a.db"), "public": "http://127.0.0.1", "token": TOKEN}
    with studio(tmp_path / "data", **settings) as address:
        for who, token in tokens.items():
            with browser_of(address) as client:
                assert enter(client, token).status_code == 303
                opened = {path for path in paths if client.get(path).status_code == 200}
                assert opened == may[who], who
                home = client.get("/", follow_redirects=True).text
                assert ('href="/label"' in home, 'href="/arena"' in home) == (
                    "/label" in may[who],
                    "/arena" in may[who],
                )


def test_a_new_arena_by_upload_and_what_is_wrong_with_files_is_said(tmp_path: Path) -> None:
    given = cases(2, tmp_path)
    write_rows(tmp_path / "cases.jsonl", given)
    for model in MODELS[:2]:
        write_rows(tmp_path / f"{model}.jsonl", [one for one in replies(given) if one.model == model])
    with studio(tmp_path / "data", db=str(tmp_path / "a.db")) as address, browser_of(address) as client:

        def send(**fields: str) -> httpx.Response:
            page = client.get("/arena/new").text
            form = re.search(r'name="form" value="([^"]+)"', page)
            assert form
            names = fields.pop("files", ",".join(MODELS[:2])).split(",")
            sent = [("files", (f"{one}.jsonl", (tmp_path / f"{one}.jsonl").read_bytes())) for one in names if one]
            sent.append(("file", ("cases.jsonl", (tmp_path / "cases.jsonl").read_bytes())))
            return client.post("/arena/new", data={"csrf": csrf(page), "form": form.group(1), **fields}, files=sent)

        for fields, says in (
            ({"name": "x", "images": str(tmp_path), "files": MODELS[0]}, "at least two models"),
            ({"name": "x", "images": str(tmp_path), "files": ""}, "replies of the models are missing"),
            ({"name": "x"}, "has pictures; name their folder"),
            ({"name": "x", "images": str(tmp_path), "focus": "Nobody"}, "no replies of Nobody"),
        ):
            answer = send(**fields)
            assert answer.status_code == 422 and says in html.unescape(answer.text), says
        made = send(name="pilot", images=str(tmp_path))
        assert made.status_code == 303
        assert "A project or arena named pilot already exists" in send(name="pilot", images=str(tmp_path)).text
        assert "pilot" in client.get(made.headers["location"]).text
        assert "No votes yet" in client.get(f"{made.headers['location']}/results").text
