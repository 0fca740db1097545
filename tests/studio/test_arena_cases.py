"""Results of an arena down to the cases, with the notes that people gave; votes per comparison and per person."""

from __future__ import annotations

import csv
import html
import io
from pathlib import Path

from tests.people.arena_material import cases, replies
from tests.studio.serving import TOKEN, browser_of, csrf, enter, studio
from tests.studio.test_label_setup import send

from compeer.people.arena import ArenaQueue, arena_progress, create_arena
from compeer.people.invitations import invite
from compeer.people.projects import all_projects, set_quota
from compeer.people.store import open_store


def test_results_open_down_to_cases_and_notes(tmp_path: Path) -> None:
    store, given = open_store(tmp_path / "a.db"), cases(12, tmp_path)
    said = replies(given, ("Zephyrine", "Basalt & Co"))
    made = create_arena(store, "duel", given, said, images=tmp_path, seed=1)
    number, queue = made.arena.id, ArenaQueue(store)
    assert made.comparisons == 36, "three votes per comparison by default"
    for name in ("anna", "ben", "cleo"):
        person = invite(store, number, name).person
        while (work := queue.next(person)) is not None:
            note = f"{name} says <b>why</b>" if work.history[0].text.startswith("I lost my job") else ""
            queue.submit(person, work.name, "first" if name == "anna" else "both", seconds=4.0, note=note)
    settings = {"db": str(tmp_path / "a.db"), "public": "http://127.0.0.1:1", "token": TOKEN}
    with studio(tmp_path / "data", **settings) as address, browser_of(address) as desk:
        enter(desk)
        here = f"/arena/arenas/{number}"
        results = desk.get(f"{here}/results").text
        pair = f"{here}/cases?one="
        link = html.unescape(next(part.split('"')[0] for part in results.split('href="') if part.startswith(pair)))
        page = desk.get(link).text
        assert "anna says &lt;b&gt;why&lt;/b&gt;" in page and "both good" in page and page.count("<tbody>") == 10
        both = [reply.response for reply in said if reply.case == "case/0"]
        later = desk.get(f"{link}&page=2").text
        assert page.count("<tbody>") + later.count("<tbody>") == 12
        assert all(html.escape(text) in html.unescape(page + later) or text in page + later for text in both)
        assert desk.get(f"{link}&winner=neither").text.count("<tbody>") == 0
        assert desk.get(f"{link}&winner=both").status_code == 200
        shown = next(part.split('"')[0] for part in page.split('src="') if "/pictures/" in part[:60])
        assert desk.get(shown).headers["content-type"] == "image/png"
        assert desk.get(f"{here}/pictures/999999/0").status_code == 404
        table = desk.get(f"{here}/files/votes.csv").content.decode("utf-8-sig")
        rows = list(csv.DictReader(io.StringIO(table)))
        assert len(rows) == 36 and {row["winner"] for row in rows} <= {"Zephyrine", "Basalt & Co", "both"}
        with browser_of(address) as client:
            enter(client, invite(store, number, "dora").token or "")
            assert client.get(link).status_code == 403, "who is compared is not told before the end"
    store.close()


def test_votes_per_comparison_and_per_person_are_settings(tmp_path: Path) -> None:
    store, given = open_store(tmp_path / "a.db"), cases(6)
    sources = {"cases.jsonl": given, "replies.jsonl": replies(given, ("A", "B"))}
    from compeer.dialogue import write_rows

    for name, rows in sources.items():
        write_rows(tmp_path / name, rows)
    settings = {"db": str(tmp_path / "a.db"), "items": (tmp_path,)}
    with studio(tmp_path / "data", **settings) as address, browser_of(address) as desk:
        assert 'name="votes" type="number" min="1" max="100" required value="3"' in desk.get("/arena/new").text
        fields = {"cases": str(tmp_path / "cases.jsonl"), "replies": str(tmp_path / "replies.jsonl"), "name": "duel"}
        assert send(desk, "/arena/new", "/arena/new", **fields, votes="2", quota="4").status_code == 303
        found = all_projects(store, "arena")[0]
        assert (found.votes, found.quota, arena_progress(store, found.id).comparisons) == (2, 4, 12)
        here = f"/arena/arenas/{found.id}"
        person, queue = invite(store, found.id, "anna").person, ArenaQueue(store)

        def compare_all() -> int:
            count = 0
            while (work := queue.next(person)) is not None:
                queue.submit(person, work.name, "both")
                count += 1
            return count

        assert compare_all() == 4
        assert send(desk, here, f"{here}/quota", quota="5").status_code == 303 and compare_all() == 1
        set_quota(store, found.id, None)
        assert compare_all() == 1 and csrf(desk.get(here).text)
    store.close()
