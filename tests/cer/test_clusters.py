"""Clusters: the elbow on known shapes, recovery of planted clusters, drawing, both real embedders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compeer.cer import personas as clusters
from compeer.cer.personas import Clustering, Persona, Traits, cluster, draws, elbow
from compeer.models.embedding import packaged as embedder
from compeer.reasoning.ontology import Language


def persona(name: str, seeker: str = "Plain.", supporter: str = "Warm.", language: Language = "en") -> Persona:
    def traits(text: str) -> Traits:
        return Traits(dominance=1, influence=2, steadiness=3, compliance=4, description=text)

    return Persona(id=name, source="test", language=language, seeker=traits(seeker), supporter=traits(supporter))


def planted(centres: int, each: int) -> tuple[list[Persona], clusters.Vectors]:
    """Personas whose vectors lie around known centres."""
    rng = np.random.default_rng(1)
    middle = rng.normal(size=(centres, 16)) * 5
    vectors = np.repeat(middle, each, axis=0) + rng.normal(size=(centres * each, 16)) * 0.3
    return [persona(f"d{n:04}") for n in range(centres * each)], vectors.astype(np.float32)


@pytest.mark.parametrize("k", [3, 5])
def test_planted_clusters_are_found(k: int) -> None:
    personas, vectors = planted(k, 30)
    (found,) = cluster(personas, lambda language: lambda texts: vectors)
    assert found.k == k
    groups = {frozenset(entry.cluster for entry in found.assignments[n : n + 30]) for n in range(0, 30 * k, 30)}
    assert len(groups) == k and all(len(group) == 1 for group in groups)
    sse = [value for _, value in found.curve]
    assert [count for count, _ in found.curve] == list(range(1, 21)) and sse[0] > sse[k - 1] > sse[-1]


def test_elbow_of_a_straight_line_and_of_a_hyperbola() -> None:
    assert elbow([(k, 10.0 - k) for k in range(1, 9)]) == 1  # no bend: nothing is gained over the first
    assert elbow([(k, 1 / k) for k in range(1, 17)]) == 4  # farthest from the chord where the slope is the chord's
    assert elbow([(1, 0.0), (2, 0.0)]) == 1


def test_draws_stay_in_the_cluster_are_never_oneself_and_repeat() -> None:
    personas, vectors = planted(3, 20)
    found = cluster(personas, lambda language: lambda texts: vectors)
    where = {entry.id: entry.cluster for entry in found[0].assignments}
    drawn = draws(personas, found[0].assignments, seed=3)
    assert set(drawn) == set(where)
    assert all(where[other.id] == where[name] and other.id != name for name, other in drawn.items())
    assert draws(reversed(personas), found[0].assignments[::-1], seed=3) == drawn  # order does not matter
    assert draws(personas, found[0].assignments, seed=4) != drawn
    assert len({other.id for other in drawn.values()}) > 30  # many voices, not one


def test_cluster_of_one_takes_the_nearest() -> None:
    personas = [persona(name) for name in ("a", "b", "c", "far")]
    vectors = np.array([[0, 0], [0, 1], [1, 0], [9, 4]], dtype=np.float32)
    (found,) = cluster(personas, lambda language: lambda texts: vectors, k=2)
    lonely = found.assignments[3]
    assert lonely.nearest == "c" and found.assignments[0].nearest is None
    assert draws(personas, found.assignments)["far"].id == "c"


def test_few_or_equal_personas() -> None:
    same = np.ones((3, 4), dtype=np.float32)
    (found,) = cluster([persona(name) for name in "abc"], lambda language: lambda texts: same)
    assert found.k == 1
    (alone,) = cluster([persona("a")], lambda language: lambda texts: same[:1])
    assert draws([persona("a")], alone.assignments) == {}  # nobody else to talk like


def test_real_embedders_group_by_manner_and_language(tmp_path: Path) -> None:
    manners: dict[Language, tuple[list[str], list[str]]] = {
        "en": (
            ["Blunt and short, gives orders.", "Curt, commanding, wants results now.", "Very direct, no small talk."],
            ["Gentle and slow, full of warmth.", "Soft-spoken, patient, tender.", "Warm, lingers, reassures kindly."],
        ),
        "zh": (
            ["说话直接，句子很短，喜欢下命令。", "说话很直接，句子短，常下命令。", "直接，句子短，命令的口气。"],
            ["语气温柔，很有耐心，常常安慰人。", "温柔耐心，总在安慰别人。", "温柔，有耐心，喜欢安慰。"],
        ),
    }
    personas = [
        persona(f"{language}{side}{n}", text, text, language)
        for language, sides in manners.items()
        for side, texts in enumerate(sides)
        for n, text in enumerate(texts)
    ]
    found = cluster(personas, embedder, k=2, seed=1)
    assert [one.language for one in found] == ["en", "zh"]
    for one in found:
        halves = [{entry.cluster for entry in one.assignments if entry.id[2] == side} for side in "01"]
        assert len(halves[0]) == len(halves[1]) == 1 and halves[0] != halves[1], one.language
    drawn = draws(personas, [entry for one in found for entry in one.assignments])
    assert all(drawn[name].language == name[:2] for name in drawn)

    clusters.write(tmp_path, found)
    assert clusters.read_assignments(tmp_path) == [entry for one in found for entry in one.assignments]


def test_plot(tmp_path: Path) -> None:
    curve = tuple((k, 100 / k) for k in range(1, 21))
    clusters.plot([Clustering("en", 4, curve, ()), Clustering("zh", 5, curve[:12], ())], tmp_path / "sse.png")
    assert (tmp_path / "sse.png").read_bytes()[:4] == b"\x89PNG"
    clusters.plot([Clustering("en", 4, curve, ())], tmp_path / "sse.svg")
    assert "#b8683f" in (tmp_path / "sse.svg").read_text().lower()
