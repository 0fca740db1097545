"""Handing in, changing, undoing, drafts, forms; links and pictures. On SQLite, where the rules are the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from tests.people.labelling import ALL_TRUE, Clock, answers, item, label_all, start

from compeer.cer.item import PastTurn
from compeer.errors import UserError
from compeer.people.invitations import (
    find_by_session,
    invite,
    new_link,
    revoke,
    set_limits,
    sign_in,
)
from compeer.people.labelling import LabellingQueue, create_project
from compeer.people.projects import set_quota
from compeer.people.store import BadAnswers, Refused, Store, open_store
from compeer.people.tables import accounts, annotators, refusals, votes
from compeer.people.work_queue import Draft

YES: dict[str, Any] = {**ALL_TRUE, "preference": "candidate"}


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    opened = open_store(tmp_path / "annotation.db", clock=clock)
    yield opened
    opened.close()


def rows(store: Store) -> list[Any]:
    with store.read() as db:
        return list(db.execute(select(votes).order_by(votes.c.id)))


def refused(store: Store) -> list[Any]:
    with store.read() as db:
        return list(db.execute(select(refusals)))


def test_a_vote_is_kept_with_everything_about_it(store: Store, clock: Clock) -> None:
    _, (anna, *_) = start(store, 1, guideline="2026-11")
    work = LabellingQueue(store).next(anna)
    assert work is not None
    LabellingQueue(store).submit(anna, work.item, answers(work, YES), seconds=12.5, note=" close call ")
    vote = next(row for row in rows(store) if row.question == "preference")
    assert (vote.answer, vote.turn, vote.at, vote.seconds) == ("candidate", "first", clock.now, 12.5)
    assert (vote.guideline, vote.candidate_first) == ("2026-11", work.task.first.startswith("CAND"))
    again = LabellingQueue(store).view(anna, work.item)
    assert again.handed_in and again.draft.answers == answers(work, YES) and again.draft.note == "close call"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"history": None}, "Not answered yet: history"),
        ({"history": "true"}, "True, False"),
        ({"history": 1}, "True, False"),
        ({"preference": "candidate"}, "first, second, both, neither"),
        ({"preference": True}, "first, second, both, neither"),
        ({"mood": True}, "Not asked here: mood"),
    ],
)
def test_answers_that_do_not_fit_save_nothing(store: Store, change: dict[str, Any], says: str) -> None:
    _, (anna, *_) = start(store, 1)
    work = LabellingQueue(store).next(anna)
    assert work is not None
    with pytest.raises(BadAnswers, match=says):
        LabellingQueue(store).submit(anna, work.item, {**ALL_TRUE, "preference": "first", **change})
    assert rows(store) == []


def test_a_change_supersedes_and_the_old_vote_stays(store: Store) -> None:
    _, (anna, ben, _) = start(store, 1)
    (work,) = label_all(store, anna, lambda _: YES)
    LabellingQueue(store).submit(anna, work.item, answers(work, YES | {"emotion": False}))
    assert [(row.revision, row.answer) for row in rows(store) if row.question == "emotion"] == [
        (1, "true"),
        (2, "false"),
    ]
    label_all(store, ben, lambda _: YES | {"emotion": False})  # agrees with what she says now
    with pytest.raises(Refused, match="closed"):
        LabellingQueue(store).submit(anna, work.item, answers(work, YES))
    assert len(rows(store)) == 12


def test_undo_takes_back_the_last_one_and_brings_the_answers_again(store: Store, clock: Clock) -> None:
    _, (anna, ben, _) = start(store, 2)
    assert LabellingQueue(store).undo(anna) is None
    first, second = label_all(store, anna, lambda _: YES)
    back = LabellingQueue(store).undo(anna)
    assert back is not None and back.item == second.item and back.draft.answers == answers(second, YES)
    assert not back.handed_in and len(rows(store)) == 8  # nothing is deleted
    label_all(store, anna, lambda _: YES)
    label_all(store, ben, lambda _: YES)
    clock.passes(119)
    assert LabellingQueue(store).undo(ben) is not None  # it was closed, but only just
    label_all(store, ben, lambda _: YES)
    clock.passes(121)
    with pytest.raises(Refused, match="closed"):
        LabellingQueue(store).undo(ben)
    assert first.item != second.item


def test_a_form_works_once(store: Store) -> None:
    _, (anna, ben, _) = start(store, 3)
    work = LabellingQueue(store).next(anna)
    assert work is not None
    LabellingQueue(store).submit(anna, work.item, answers(work, YES), form="f-1")
    for replay in (
        lambda: LabellingQueue(store).submit(anna, work.item, answers(work, YES | {"history": False}), form="f-1"),
        lambda: LabellingQueue(store).skip(anna, work.item, "no", form="f-1"),
        lambda: LabellingQueue(store).undo(anna, form="f-1"),
    ):
        with pytest.raises(Refused, match="sent before"):
            replay()
    assert len(rows(store)) == 4 and [row.kind for row in refused(store)] == ["form"] * 3
    other = LabellingQueue(store).next(ben)
    assert other is not None
    with pytest.raises(BadAnswers):
        LabellingQueue(store).submit(ben, other.item, {}, form="f-2")
    LabellingQueue(store).submit(
        ben, other.item, answers(other, YES), form="f-2"
    )  # what failed did not use the form up


def test_texts_with_everything_in_them_are_kept_as_they_are(store: Store) -> None:
    nasty = "<script>alert(1)</script> \u202eevil\u202c 🙂\x00 'quoted\" ; DROP TABLE votes; --" + "长" * 9000
    made = create_project(store, "nasty", [item(1, history=(PastTurn("seeker", nasty),), reference=nasty * 2)])
    anna = invite(store, made.project.id, "anna").person
    work = LabellingQueue(store).next(anna)
    assert work is not None and work.task.history[0].text == nasty and nasty * 2 in (work.task.first, work.task.second)
    assert LabellingQueue(store).keep(anna, work.item, Draft({}, nasty))
    assert LabellingQueue(store).view(anna, work.item).draft.note == nasty.replace("\x00", "")
    with pytest.raises(BadAnswers, match="at most 10,000"):
        LabellingQueue(store).keep(anna, work.item, Draft({}, nasty * 2))


def test_links_are_hashed_replaced_and_revoked(store: Store) -> None:
    project, _ = start(store, 1, "")
    anna, token = invite(store, project.id, "anna")
    with store.read() as db:
        kept = db.execute(select(accounts)).one()
        assert token not in repr(kept) + repr(db.execute(select(annotators)).one())
    assert token is not None and len(token) >= 43
    known = sign_in(store, token)
    assert known.people == (anna,) and find_by_session(store, known.id, known.key) == known
    again, newer = new_link(store, project.id, "anna")
    assert again.id == anna.id and find_by_session(store, known.id, known.key) is None and newer is not None
    known = sign_in(store, newer)
    for forged in (token, "", "x" * 5000, "é\udcff", newer + "A", kept.token):
        with pytest.raises(Refused) as refusal:
            sign_in(store, forged)
        assert refusal.value.kind == "token"
    log = refused(store)
    assert len(log) == 6 and token not in repr(log)
    revoke(store, project.id, "anna")
    with pytest.raises(Refused):
        sign_in(store, newer)
    assert find_by_session(store, known.id, known.key) is None


def test_one_link_opens_everything_a_person_was_invited_to(store: Store) -> None:
    first, second = (create_project(store, name, [item(1)]).project.id for name in ("first", "second"))
    token = invite(store, first, "anna").token
    joined = invite(store, second, "anna")
    assert token is not None and joined.token is None  # no second link
    known = sign_in(store, token)
    assert [one.project for one in known.people] == [first, second] and known.people[1] == joined.person
    own = invite(store, second, "Anna")  # another name is another person, and so is another role
    chief = invite(store, first, "anna 2", "coordinator")
    assert own.token and chief.token and sign_in(store, chief.token).people == (chief.person,)
    with pytest.raises(UserError, match="anna has a link already"):
        invite(store, second, "anna")
    revoke(store, first, "anna")
    assert [one.project for one in sign_in(store, token).people] == [second]  # the link still opens the other
    assert invite(store, first, "anna").token is None and len(sign_in(store, token).people) == 2
    _, newer = new_link(store, second, "anna")
    assert newer is not None and len(sign_in(store, newer).people) == 2
    for project in (first, second):
        revoke(store, project, "anna")
    with pytest.raises(Refused):
        sign_in(store, newer)


def test_people_get_only_what_they_can_read_and_no_more_than_their_quota(store: Store) -> None:
    given = [item(n, language="zh" if n % 2 else "en") for n in range(8)]
    project = create_project(store, "mixed", given, audit_share=0.0).project
    anna = invite(store, project.id, "anna", languages=("en",)).person
    bo = invite(store, project.id, "bo", languages=("zh",)).person
    both = invite(store, project.id, "both").person
    thinks = {**ALL_TRUE, "preference": "both"}
    seen = {one.name: label_all(store, one, lambda _: thinks) for one in (anna, bo)}
    assert {one.task.language for one in seen["anna"]} == {"en"} and len(seen["anna"]) == 4
    assert {one.task.language for one in seen["bo"]} == {"zh"} and len(seen["bo"]) == 4
    set_quota(store, project.id, 3)
    assert len(label_all(store, both, lambda _: thinks)) == 3
    assert set_limits(store, project.id, "both", quota=5).quota == 5
    assert len(label_all(store, both, lambda _: thinks)) == 2  # five with the three before
    set_limits(store, project.id, "both", languages=("zh",))
    set_quota(store, project.id, None)
    left = label_all(store, both, lambda _: thinks)
    assert {one.task.language for one in left} <= {"zh"}


def test_pictures_come_from_the_projects_folder_and_only_to_who_has_the_item(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.png").write_bytes(b"png")
    (tmp_path / "secret.txt").write_text("no")
    (folder / "link.png").symlink_to(tmp_path / "secret.txt")
    for path in ("../secret.txt", "/etc/passwd", "link.png", "sub/../../secret.txt", "a\x00b"):
        bad = item(1, history=(PastTurn("seeker", "Look.", (path,)),))
        with pytest.raises(UserError, match="lies outside"):
            create_project(store, "bad", [bad], images=folder)
    good = [item(n, history=(PastTurn("seeker", "Look.", ("sub/a.png",)),)) for n in range(2)]
    made = create_project(store, "good", good, images=folder)
    anna, ben = (invite(store, made.project.id, name).person for name in ("anna", "ben"))
    work = LabellingQueue(store).next(anna)
    assert work is not None
    assert (
        LabellingQueue(store).picture(anna, work.item, 0).read_bytes()
        == LabellingQueue(store).picture_of(made.project.id, work.item, 0).read_bytes()
        == b"png"
    )
    (folder / "sub" / "a.png").unlink()
    (folder / "sub" / "a.png").symlink_to(tmp_path / "secret.txt")  # swapped after the project was made
    for person, number, n in ((ben, work.item, 0), (anna, work.item, 1), (anna, work.item, -1), (anna, work.item, 0)):
        with pytest.raises(Refused):
            LabellingQueue(store).picture(person, number, n)
    assert [row.kind for row in refused(store)] == ["not-yours", "path", "path", "path"]
