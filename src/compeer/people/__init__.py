"""People: labelling by the 2 + 1 protocol, and the arena, where people compare models; one store for both.

Everything takes an open store first (`store.open_store("annotation.db")` or a PostgreSQL URL). A person signs in with a
personal link (`invitations`); `labelling.LabellingQueue` and `arena.ArenaQueue` give them work and take their answers.
What is refused raises `store.Refused`, is logged in the store, and changes nothing.

    store              opening a database, transactions, refusals, migration
    tables             the tables
    invitations        people, one account and link each, pausing, signing in, forms that work once
    projects           names, settings, lists and pictures of labelling projects and arenas
    work_queue         leases: next, hand in, undo, skip, drafts, own progress; shared by labelling and arena
    protocol           the 2 + 1 rules, pure
    guideline          the guideline's text in versions, and questions of a project's own
    labelling          labelling projects, and the queue of items
    labelling_results  progress, agreement, audit, disagreements, votes read back
    quality            what is measured of people's work, flags for careless work, labels on hold
    known_items        gold items, practice, and the queue that mixes them in
    exchange           labels out as CER items, votes in
    other_tools        Label Studio and Potato
    arena_cases        cases and replies: read, made from dialogues, generated, imported
    arena              arenas: the plan of comparisons, the queue, progress
    arena_results      win, tie and loss by pair with intervals, Bradley-Terry ranking, the stacked bars
    terminal_tables    progress, agreement and results for a terminal
"""

from __future__ import annotations
