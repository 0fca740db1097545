"""The arena (Figure 6 of the paper): people compare the replies of several models, blind.

cases       conversations to answer, text and pictures; from files or from dialogues
replies     what each model answers in reasoning mode, generated (and resumed) or imported
pairing     which two models on which case, in which order and on which sides; pure, seeded
project     an arena in the store: cases, replies, slots, settings
queue       what a person compares next, handing in, taking back, putting away
seats       the slots: giving one to a person, returning those of who is gone
ballots     the votes that count, read back; what an export holds
outcome     win, tie and loss by pair, with paired bootstrap intervals over cases; pure
ranking     Bradley-Terry strengths with intervals from the same resamples; pure
results     all of it for one arena, now
progress    how far it is
figure      the stacked bars as SVG or PNG

The store, the people, their personal links and the life of a lease are those of `compeer.annotation`: an arena is a
project there, so `people.invite`, `new_link`, `pause` and `revoke` work as they do for labelling.

    from compeer.annotation.store import open_store
    store = open_store("annotation.db")
    made = create_arena(store, "pilot", cases, replies, images=folder)          # compeer.arena.project
    work = next_comparison(store, person)                                        # compeer.arena.queue
    submit(store, person, work.name, "first", seconds=12.0)
    results_of(store, made.arena.id)                                             # compeer.arena.results
"""
