"""What a reader must keep in mind, in words, for each benchmark that a report shows."""

from __future__ import annotations

from compeer.evals.report.gather import Gathered

_OF: dict[str, tuple[str, ...]] = {
    "sage": (
        "The simulator is part of a SAGE result. The same tested model scored 52 with one simulator and 32 with "
        "another, so runs with different simulators never share a column, and the paper's figures (simulator GPT-4o) "
        "are for orientation only.",
        "Sentient is the mean emotion at the end of a dialogue; failures keep the value they ended with. Success "
        "counts dialogues that reach 100, Failure those that fall below 10. In a dialogue of full length the last "
        "reply is not judged.",
    ),
    "esc-eval": (
        "GPT-4 as a judge agreed with people on only 1 to 3 % of Humanoid and under 2 % of Overall judgements in "
        "ESC-Eval's own study. Read those two columns of a GPT judge with care; judges stand in separate columns for "
        "this reason.",
        "Four of the paper's Average cells are not the mean of their seven columns (COMPEER-URP prints 82.39, the mean "
        "is 82.60). They are shown as printed, with a mark. Ours is always the plain mean of the seven.",
        "The seeker is played by a model, and the judge's prompt shapes the score. A figure compares models only under "
        "the same seeker, the same judge and the same prompts.",
    ),
    "reward": ("A judge's reward says what the judge prefers. It was trained on labels that may be silver.",),
    "diversity": (
        "Distinct-n falls and self-BLEU rises as a set grows, and both depend on how long replies are. Compare sets of "
        "about the same size.",
        "Nearness to a reference is not quality: there are many good replies to one moment.",
    ),
    "control": (
        "Agreement with the stated strategy is read by a classifier or a judge that can be wrong itself. Its own "
        "accuracy stands beside it; a reply may also use more than one strategy.",
    ),
    "safety": ("Red-team cases are few and written by us. A good figure here is no proof of safety for real people.",),
}
INTERVALS = (
    "The range that stands with a figure is its 95 % interval over the cases. It says how much the choice of cases "
    "matters, not how much the judge or the simulator does."
)
ABOUT = (
    "This is research software. Scores by models about simulated people do not show that anyone was helped.",
    "Dialogues may touch on painful things, suicide among them.",
)


def caveats(gathered: Gathered) -> list[str]:
    """The sentences that concern what is shown."""
    found = [INTERVALS]
    for benchmark in gathered.benchmarks:
        found += _OF.get(benchmark, ())
    return [*found, *ABOUT]
