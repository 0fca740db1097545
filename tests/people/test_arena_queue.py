"""The arena in the store: who gets what, once; votes only added; leases; closing. On SQLite and PostgreSQL."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import select
from tests.people.arena_material import MODELS, cases, replies
from tests.people.labelling import Clock

from compeer.errors import UserError
from compeer.people.arena import ArenaQueue, arena_progress, close_arena, create_arena
from compeer.people.arena_results import counted_votes
from compeer.people.invitations import Person, invite, pause, revoke
from compeer.people.projects import all_projects
from compeer.people.store import Refused, Store, open_store
from compeer.people.tables import arena_votes


def arena(store: Store, count: int = 3, models: int = 3, people: int = 2, **more: object) -> list[Person]:
    given = cases(count)
    made = create_arena(store, "pilot", given, replies(given, MODELS[:models]), seed=4, **{"votes": 1} | more)  # type: ignore[arg-type]
    return [invite(store, made.arena.id, f"P{n}").person for n in range(people)]


def finish(store: Store, person: Person, choice: str = "first") -> list[tuple[str, str]]:
    """Everything that the queue has for somebody."""
    seen = []
    while (work := ArenaQueue(store).next(person)) is not None:
        seen.append(tuple(sorted((work.first, work.second))))
        ArenaQueue(store).submit(person, work.name, choice, seconds=5.0)
    return seen


def test_an_arena_is_voted_once_and_nobody_sees_a_comparison_twice(store: Store) -> None:
    people = arena(store, votes=2, people=3)
    seen = [finish(store, person) for person in people]
    assert sum(map(len, seen)) == 3 * 3 * 2
    assert all(len(set(one)) == len(one) for one in seen)
    found = counted_votes(store, people[0].project)
    assert len(found) == 18 and set(Counter((b.case, *sorted((b.left, b.right))) for b in found).values()) == {2}
    for one in MODELS[:3]:
        for two in MODELS[:3]:
            assert one == two or sum((b.left, b.right) == (one, two) for b in found) == 3
    assert arena_progress(store, people[0].project).complete and ArenaQueue(store).own_progress(people[0]).over
    assert all_projects(store, "labelling") == [], "an arena is no labelling project"


def test_many_at_once_take_every_slot_once(store: Store) -> None:
    people = arena(store, count=6, models=4, people=6)
    with ThreadPoolExecutor(6) as pool:
        seen = list(pool.map(lambda person: finish(store, person), people))
    assert sum(map(len, seen)) == 36 == len(counted_votes(store, people[0].project))
    assert len({one for some in seen for one in some}) == 36


def test_what_lapses_goes_to_others_and_the_same_slot_keeps_its_sides(store: Store, clock: Clock) -> None:
    anna, ben = arena(store, count=1, models=2)
    held = ArenaQueue(store).next(anna)
    assert held is not None and ArenaQueue(store).next(ben) is None
    assert ArenaQueue(store).next(anna) == held, "a reload shows the same"
    clock.now += 10 * 60
    assert ArenaQueue(store).keep(anna, held.name)
    clock.now += 10 * 60
    assert ArenaQueue(store).next(ben) is None, "she is still reading"
    clock.now += 16 * 60
    given = ArenaQueue(store).next(ben)
    assert given is not None and (given.first, given.second) == (held.first, held.second)
    assert given.name != held.name
    with pytest.raises(Refused, match="somebody else has this"):
        ArenaQueue(store).submit(anna, held.name, "first")
    ArenaQueue(store).submit(ben, given.name, "both", seconds=3)
    assert [(b.annotator, b.choice) for b in counted_votes(store, anna.project)] == [("P1", "both")]


def test_a_lapsed_comparison_that_nobody_took_can_still_be_handed_in(store: Store, clock: Clock) -> None:
    anna, _ = arena(store, count=1, models=2)
    held = ArenaQueue(store).next(anna)
    clock.now += 3600
    assert held is not None
    ArenaQueue(store).submit(anna, held.name, "neither")
    assert len(counted_votes(store, anna.project)) == 1


def test_taking_back_adds_a_vote_and_counts_the_newest(store: Store, clock: Clock) -> None:
    anna, _ = arena(store)
    work = ArenaQueue(store).next(anna)
    assert work is not None
    ArenaQueue(store).submit(anna, work.name, "first", seconds=4, note="hm")
    with pytest.raises(Refused, match="handed in already"):
        ArenaQueue(store).submit(anna, work.name, "second")
    back = ArenaQueue(store).undo(anna)
    assert back is not None and (back.name, back.choice, back.note) == (work.name, "first", "hm")
    assert (back.first, back.second) == (work.first, work.second)
    assert counted_votes(store, anna.project) == []
    ArenaQueue(store).submit(anna, work.name, "second")
    with store.read() as db:
        assert [row.choice for row in db.execute(select(arena_votes).order_by(arena_votes.c.id))] == ["first", "second"]
    (vote,) = counted_votes(store, anna.project)
    assert (vote.choice, vote.winner) == ("second", vote.right)
    clock.now += 180
    with pytest.raises(Refused, match="a while ago"):
        ArenaQueue(store).undo(anna)


def test_only_ones_own_and_only_while_it_is_open(store: Store, tmp_path: Path) -> None:
    given = cases(2, tmp_path)
    made = create_arena(store, "pictures", given, replies(given), images=tmp_path)
    anna, ben = (invite(store, made.arena.id, name).person for name in ("Anna", "Ben"))
    work = ArenaQueue(store).next(anna)
    assert work is not None and ArenaQueue(store).picture(anna, work.name, 0).is_file()
    for refused in (
        lambda: ArenaQueue(store).view(ben, work.name),
        lambda: ArenaQueue(store).submit(ben, work.name, "first"),
        lambda: ArenaQueue(store).picture(ben, work.name, 0),
        lambda: ArenaQueue(store).picture(anna, work.name, 99),
        lambda: ArenaQueue(store).submit(anna, "no-such-name", "first"),
    ):
        with pytest.raises(Refused):
            refused()
    ArenaQueue(store).skip(anna, work.name, "", distress=True)
    with pytest.raises(Refused):
        ArenaQueue(store).submit(anna, work.name, "first")
    after = ArenaQueue(store).next(anna)
    assert after is not None and {after.first, after.second} != {work.first, work.second}
    assert arena_progress(store, made.arena.id).held == 1
    pause(store, made.arena.id, "Anna")
    assert arena_progress(store, made.arena.id).held == 0, "given back at once"
    with pytest.raises(Refused, match="paused"):
        ArenaQueue(store).submit(anna, after.name, "first")
    assert ArenaQueue(store).next(anna) is None
    assert len(finish(store, ben)) == 12, "what paused people held goes to others"
    revoke(store, made.arena.id, "Ben")
    with pytest.raises(Refused, match="ended"):
        ArenaQueue(store).next(ben)
    now = arena_progress(store, made.arena.id)
    assert [(one.done, one.skipped, one.distressed) for one in now.people] == [(0, 1, 1), (12, 0, 0)]


def test_a_closed_arena_gives_out_nothing_and_shows_its_results(store: Store) -> None:
    anna, _ = arena(store)
    work = ArenaQueue(store).next(anna)
    close_arena(store, anna.project)
    assert work is not None and ArenaQueue(store).next(anna) is None and ArenaQueue(store).own_progress(anna).over
    with pytest.raises(Refused, match="closed"):
        ArenaQueue(store).submit(anna, work.name, "first")
    close_arena(store, anna.project, False)
    ArenaQueue(store).submit(anna, work.name, "first")


def test_reasoning_is_shown_only_on_request_and_only_where_both_have_it(tmp_path: Path) -> None:
    store, given = open_store(tmp_path / "a.db"), cases(2)
    said = replies(given, MODELS[:2])
    bare = type(said[0])(case=said[0].case, model=said[0].model, response=said[0].response)
    for name, show in (("shown", True), ("hidden", False)):
        made = create_arena(store, name, given, [bare, *said[1:]], show_reasoning=show)
        person = invite(store, made.arena.id, "Anna").person
        thoughts = []
        while (work := ArenaQueue(store).next(person)) is not None:
            thoughts.append(work.thoughts is not None)
            ArenaQueue(store).submit(person, work.name, "both")
        assert sorted(thoughts) == ([False, True] if show else [False, False])


def test_what_does_not_fit_together_is_said(tmp_path: Path) -> None:
    store, given = open_store(tmp_path / "a.db"), cases(3)
    said = replies(given)
    made = create_arena(store, "gaps", given, said[1:])
    assert (made.cases, made.left_out) == (2, 1), "a case that one model did not answer is left out"
    for name, some, more, message in (
        ("gaps", said, {}, "already"),
        ("x", [one for one in said if one.model == MODELS[0]], {}, "at least two models"),
        ("x", said, {"focus": "nobody"}, "no replies of nobody"),
        ("x", [*said, said[0]], {}, "twice"),
        ("x", said, {"votes": 0}, "1 to 100 votes"),
    ):
        with pytest.raises(UserError, match=message):
            create_arena(store, name, given, some, **more)  # type: ignore[arg-type]
    (tmp_path / "pictures").mkdir()
    shown = cases(1, tmp_path / "pictures")
    with pytest.raises(UserError, match="is not in"):
        create_arena(store, "x", shown, replies(shown), images=tmp_path)
