"""How two people talk, described and clustered, and another voice for each dialogue (Personality-based Rewriting).

A language model reads DISC traits: Dominance, Influence, Steadiness, Compliance (Marston 1928), a score from 0 to 10
each, and one or two sentences on the manner of talking. The description is what is clustered and what a rewriting
follows; the scores keep it honest and let a person check it. The dialogue goes to the model as JSON data, so that
nothing said in it can pass for an instruction.

The descriptions are embedded and grouped by K-Means; the number of clusters is the elbow of the sum of squared errors
(SSE). The elbow is the point farthest from the chord between the curve's ends, both axes scaled to 0..1 (Satopää et al.
2011, "kneedle", with sensitivity 0 and no smoothing: SSE falls monotonically, so there is one knee and nothing to
smooth). Each dialogue is then lent another persona of its cluster; in a cluster of one, the nearest of another cluster.
Only personas that are given can be drawn: pass those of the training dialogues, and no voice of a held-out dialogue
reaches the training set.

Departures from the paper: its prompt is in a supplement that is not public, so this one is ours. It asks for manner
only, without names and events: a description that tells what happened to the first person would carry that into the
second. Each language is clustered for itself, because a Chinese dialogue needs a voice described in Chinese, and
because the two embedders shipped inside packages live in different spaces (all-MiniLM-L6-v2 for English, Universal
Sentence Encoder Multilingual for Chinese).
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from compeer.cer.prompts import as_data, prompts
from compeer.dialogue import Dialogue, read_rows, write_json, write_rows
from compeer.errors import UserError
from compeer.models.ask import ask_json
from compeer.models.embedding import Embed, packaged
from compeer.models.request import Request, instructed
from compeer.pipeline.stage import Reject, Stage, Tools
from compeer.plotting import ACCENT, INK, QUIET, WARM, drawing, frame
from compeer.reasoning.ontology import Language
from compeer.reasoning.schema import has_words

Score = Annotated[int, Meta(ge=0, le=10)]
ROLE = "profiler"


class Traits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one person talks."""

    dominance: Score
    influence: Score
    steadiness: Score
    compliance: Score
    description: str

    def __post_init__(self) -> None:
        if not has_words(self.description):
            raise ValueError("description is empty")


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model answers: both people."""

    seeker: Traits
    supporter: Traits


class Persona(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The two voices of one dialogue; `id` is the dialogue's."""

    id: str
    source: str
    language: Language
    seeker: Traits
    supporter: Traits
    model: str = ""

    @property
    def text(self) -> str:
        """What is embedded and clustered: both descriptions, each under its part."""
        names = {"en": ("Seeker: ", "Supporter: "), "zh": ("求助者：", "支持者：")}[self.language]
        return f"{names[0]}{self.seeker.description.strip()}\n{names[1]}{self.supporter.description.strip()}"


PROMPTS = prompts("personas")


def request(dialogue: Dialogue, seed: int | None = None) -> Request:
    said = [{"speaker": one.speaker, "text": one.text} for one in dialogue.utterances]
    material = as_data({"conversation": said})
    return instructed(PROMPTS[dialogue.language], material, max_tokens=600, temperature=0.0, seed=seed)


async def describe(dialogue: Dialogue, tools: Tools) -> Persona | Reject:
    """The persona of one dialogue. A monologue has no two voices and is turned away."""
    if {utterance.speaker for utterance in dialogue.utterances} != {"seeker", "supporter"}:
        return Reject(dialogue.id, "one-sided", "only one of the two speaks")
    model = tools.models[ROLE]
    profile, _ = await ask_json(model, request(dialogue, tools.seed), Profile)
    return Persona(
        id=dialogue.id,
        source=dialogue.source,
        language=dialogue.language,
        seeker=profile.seeker,
        supporter=profile.supporter,
        model=model.name,
    )


STAGE = Stage(
    name="personas",
    function=describe,
    reads=Dialogue,
    writes=Persona,
    roles=(ROLE,),
    prompts=tuple(PROMPTS.values()),
    calls_per_row=1.0,
    tokens_per_call=(1200, 180),
)


Vectors = npt.NDArray[np.float32]
MOST_CLUSTERS = 20


class Assignment(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where one persona belongs; `nearest` is another's id, kept where the cluster has no second member."""

    id: str
    language: Language
    cluster: str  # e.g. "en-3"
    nearest: str | None = None


class Clustering(msgspec.Struct, frozen=True):
    """The clusters of one language and the curve that decided their number."""

    language: Language
    k: int
    curve: tuple[tuple[int, float], ...]  # (k, SSE)
    assignments: tuple[Assignment, ...]


def cluster(
    personas: Iterable[Persona],
    embed: Callable[[Language], Embed] = packaged,
    *,
    k: int | None = None,
    seed: int = 0,
) -> list[Clustering]:
    """The clusterings, one a language. `k` fixes the number of clusters; otherwise the elbow decides."""
    by_language: dict[Language, list[Persona]] = defaultdict(list)
    for persona in sorted(personas, key=lambda persona: persona.id):  # the result must not hang on the file's order
        by_language[persona.language].append(persona)
    found = []
    for language, group in sorted(by_language.items()):
        vectors = embed(language)([persona.text for persona in group])
        found.append(_cluster(language, group, vectors, k, seed))
    return found


def _cluster(language: Language, personas: list[Persona], vectors: Vectors, k: int | None, seed: int) -> Clustering:
    distinct = len(np.unique(vectors, axis=0))  # K-Means cannot make more clusters than there are points
    ks = range(1, min(MOST_CLUSTERS, distinct) + 1) if k is None else (min(k, distinct),)
    fits = {count: _kmeans(vectors, count, seed) for count in ks}
    curve = [(count, float(fit.inertia_)) for count, fit in fits.items()]
    chosen = elbow(curve)
    labels: npt.NDArray[np.int_] = fits[chosen].labels_
    sizes = np.bincount(labels, minlength=chosen)
    assignments = []
    for number, (persona, label) in enumerate(zip(personas, labels, strict=True)):
        nearest = None
        if sizes[label] == 1 and len(personas) > 1:
            distances = np.linalg.norm(vectors - vectors[number], axis=1)
            distances[number] = np.inf
            nearest = personas[int(distances.argmin())].id
        assignments.append(Assignment(persona.id, language, f"{language}-{label}", nearest))
    return Clustering(language, chosen, tuple(curve), tuple(assignments))


def _kmeans(vectors: Vectors, k: int, seed: int) -> Any:
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # a few thousand points are too few to share: threads that wait for one another cost ten times the work
    with threadpool_limits(1 if len(vectors) < 20_000 else None):
        return KMeans(k, n_init=4, random_state=seed).fit(vectors)


def elbow(curve: Sequence[tuple[int, float]]) -> int:
    """The k farthest below the chord from the curve's first point to its last, both axes scaled to 0..1.

    >>> elbow([(1, 100.0), (2, 40.0), (3, 12.0), (4, 9.0), (5, 7.0), (6, 6.0)])
    3
    >>> elbow([(1, 5.0)])
    1
    """
    (first, high), (last, low) = curve[0], curve[-1]
    if last == first or high <= low:
        return first  # one point, or nothing gained by more clusters
    # the scaled chord runs from (0, 1) to (1, 0); the distance to it grows with 1 - x - y. Rounded, so that on a
    # straight line, where every point is as good, the first one wins
    return max(curve, key=lambda at: round(1 - (at[0] - first) / (last - first) - (at[1] - low) / (high - low), 9))[0]


def draw_persona(own: Assignment, members: Sequence[str], seed: int = 0) -> str | None:
    """The id of another persona of the cluster, whose `members` these are; the same whatever else is drawn.

    >>> draw_persona(Assignment("a", "en", "en-0"), ["a", "b"]), draw_persona(Assignment("c", "en", "en-1", "b"), ["c"])
    ('b', 'b')
    """
    others = [member for member in members if member != own.id]
    if not others:
        return own.nearest
    return random.Random(hashlib.sha256(f"{seed}\x1f{own.id}".encode()).digest()).choice(others)


def draws(personas: Iterable[Persona], assignments: Iterable[Assignment], seed: int = 0) -> dict[str, Persona]:
    """The persona for rewriting each dialogue; none for the only persona of a language."""
    by_id = {persona.id: persona for persona in personas}
    assigned = sorted(assignments, key=lambda entry: entry.id)
    members: dict[str, list[str]] = defaultdict(list)
    for entry in assigned:
        if entry.id not in by_id:
            raise UserError(f"The persona {entry.id} was clustered but is not among the personas; cluster them again.")
        members[entry.cluster].append(entry.id)
    drawn = {entry.id: draw_persona(entry, members[entry.cluster], seed) for entry in assigned}
    return {name: by_id[other] for name, other in drawn.items() if other is not None}


def write(folder: Path, clusterings: Sequence[Clustering]) -> None:
    """`clusters.jsonl` (one assignment a line), `clusters.json` (k and curve) and `clusters.png` in a folder."""
    write_rows(folder / "clusters.jsonl", (entry for clustering in clusterings for entry in clustering.assignments))
    curves = {entry.language: {"k": entry.k, "sse": dict(entry.curve)} for entry in clusterings}
    write_json(folder / "clusters.json", curves)
    plot(clusterings, folder / "clusters.png")


def read_assignments(folder: Path) -> list[Assignment]:
    return list(read_rows(folder / "clusters.jsonl", Assignment))


def plot(clusterings: Sequence[Clustering], path: Path) -> None:
    """The SSE curves, their elbows and the chords that found them. PNG or SVG, by the suffix."""
    with drawing(path, 6.4, 4.2) as figure:
        axes = figure.subplots()
        frame(axes, "Personas: sum of squared errors and its elbow", "clusters", "sum of squared errors")
        for clustering, style in zip(clusterings, ("-", "--"), strict=False):
            ks, sse = [k for k, _ in clustering.curve], [value for _, value in clustering.curve]
            name = {"en": "English", "zh": "Chinese"}[clustering.language]
            axes.plot(ks, sse, style, color=ACCENT, marker="o", markersize=3.5, linewidth=1.6, label=name)
            axes.plot([ks[0], ks[-1]], [sse[0], sse[-1]], ":", color=QUIET, linewidth=1)
            at = dict(clustering.curve)[clustering.k]
            axes.plot([clustering.k], [at], "o", color=WARM, markersize=8, zorder=3)
            axes.annotate(
                f"k = {clustering.k}", (clustering.k, at), (0, -18), textcoords="offset points", ha="center", color=WARM
            )
        axes.locator_params(axis="x", integer=True)
        if len(clusterings) > 1:
            axes.legend(frameon=False, fontsize=9, labelcolor=INK)
