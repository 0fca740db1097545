"""Labelling by people: the 2 + 1 protocol, a store that many annotators share, agreement, export.

Two people answer four questions about each item, each alone: are the candidate's three steps right, and which of two
replies is better. Where they differ on a question a third votes on that question, blind. Two of three make the label.

A page handler, or anybody else, works with plain functions. All of them take the open store first; what is refused
raises `Refused` (a `UserError` with `.kind` and an HTTP `.status`), is noted in the store's log, and changes nothing.
They block on the database, so an async handler calls them in a thread; the store is safe to share between threads.

    from compeer.people.store import open_store
    store = open_store("annotation.db")                    # or postgresql://USER@HOST/NAME; migrated on opening

Coming in                                                  compeer.people.invitations
    come_in(store, token, address="") -> Person            a personal link; a forged one is refused and logged
    returning(store, person.id, person.key) -> Person|None a session's person, unless their link was replaced
    coordinator(person) -> Person                          refused for annotators (log it: store.log(refusal, address))

For an annotator                                           compeer.people.labelling_queue, voting, progress, project
    next_work(store, person) -> Work | None                the next item, leased; None: nothing for them now
    view(store, person, item) -> Work                      an item they hold or handed in; others are refused
    save_draft(store, person, item, answers, note=, seconds=) -> bool      autosave; renews the lease
    submit(store, person, item, answers, seconds=, note=, guideline=, form=)   hand in, or hand in anew
    skip(store, person, item, reason, distress=False, form=)
    undo(store, person, form=) -> Work | None              take back what was handed in last
    mine(store, person) -> Mine                            own counts, nothing of the others'
    handed_in(store, person) -> list[HandedIn]             own items, to look at again     compeer.people.labelling_votes
    picture(store, person, item, number) -> Path           the n-th picture of the item's history

    `Work.item` is the number to ask with. `Work.task` (`compeer.cer.exchange.Task`) holds history, steps, the replies
    as `first` and `second`, and `questions`: what is asked, which for a third vote is only what is disputed. `answers`
    are {"history": True, …, "preference": "first" | "second" | "both" | "neither"}; `Work.draft.answers` has the same
    form. `form` is the random name of the page's form; the same name twice is refused. Answers that do not fit raise
    `BadAnswers`, and nothing is saved.

For a coordinator                                          compeer.people.labelling_project, people, progress, reliability
    create_project(store, name, items, images=, guideline=, lease_minutes=, undo_minutes=, audit_share=, seed=)
    projects_of(store), project(store, number), project_named(store, name)
    invite(store, project, name, role="annotator") -> Invitation(person, token); new_link, revoke, pause(…, paused=)
    everybody(store, project) -> list[Person]
    progress(store, project) -> Progress; disagreements(store, project, limit=, offset=) -> list[Disagreement]
    agreement(store, project) -> Agreement; audit(store, project, judgements=None) -> {question: Confirmed}
    overview(store, project) -> Overview; between(store, project, question) -> list[Pair]    in parts, for a page
    shelf(store) -> list[OnShelf]                          all projects with their counts  compeer.people.labelling_project
    use_form(store, person, form)                          compeer.people.invitations; for a coordinator's own forms

Out and in                                                 compeer.people.exchange, importing, formats
    labelled(store, project, everything=False, anonymous=False) -> Iterator[Item]
    import_votes(store, project, votes_by_item) -> Imported; votes_of_items(items)
    formats.label_studio.write / read, formats.potato.write / read

What the arena uses as well                                people, forms, refusal, store, and
    founding    a name of its own and the terms that people work under
    lease       the life of a lease, in whichever tables: held, kept, handed in, taken back, put away, lapsed
    given       notes and seconds as they are kept
    effort      what people have done, counted from their leases
    shelf       what a list shows of projects
    pictures    files of pictures, from the project's folder alone

Behind them: protocol (the rules, pure), agreement (the figures, pure), seats (places at an item), tallies (votes
counted by the database), ballots (votes read back), tables_shown (for a terminal), refusal, store.
"""

from __future__ import annotations
