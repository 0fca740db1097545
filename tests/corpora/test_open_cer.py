"""Open CER: schema, labels, lengths, openings, variety, likeness, nothing private; crisis apart; a card that is true."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path

import pytest
import yaml
from runs.open_cer.card import CARD, PARTS, PICTURE, counted_again
from runs.open_cer.grid import plan
from runs.open_cer.items import NUMBERS, balance
from runs.open_cer.pictures import SCENES
from runs.supporter.rows import moments
from tests.cli.command import compeer

from compeer.cer.build import Build, CorpusSource, build
from compeer.cer.duplicates import Signatures
from compeer.cer.item import QUESTIONS, Item, items_at, read_items
from compeer.corpora import load, open_cer
from compeer.corpora.open_cer import split_of
from compeer.corpora.reading import CorpusError
from compeer.dialogue import Dialogue, Utterance, read, write_rows
from compeer.dialogue import turns as merged_turns
from compeer.policy.bridges.datasets import export
from compeer.reasoning import STEPS, parse, render
from compeer.reasoning.ontology import STRATEGIES, fits, words
from compeer.reward.attack import usable

DIALOGUES = list(open_cer.load())
PRIVATE = re.compile(
    r"\S+@\S+\.\w+|https?://|www\.|\b\w+\.(?:com|org|net|io|cn|uk)\b|(?<!\d)\+?\d[\d ().-]{6,}\d(?!\d)", re.I
)
#: what the guide for authors asks for: English words, Chinese characters
LENGTH: dict[str, Callable[[str], int]] = {"en": lambda text: len(words(text)), "zh": len}
LONGEST = {"en": 60, "zh": 80}
THINKING = {"en": (40, 90), "zh": (60, 140)}
#: corpora that lie in COMPEER_DATA, and how much of each is compared
OTHERS = ("esconv", "escot", "mesc", "smile", "cpsycoun", "emollm")


def turns(language: str) -> list[Utterance]:
    return [
        one
        for dialogue in DIALOGUES
        if dialogue.language == language
        for one in dialogue.utterances
        if one.reasoning is not None
    ]


def distinct_2(texts: Sequence[str]) -> float:
    pairs: Counter[tuple[str, str]] = Counter()
    for text in texts:
        said = [word.lower() for word in words(text)]
        pairs.update(pairwise(said))
    return len(pairs) / pairs.total()


def test_counts_and_names() -> None:
    assert len({one.id for one in DIALOGUES}) == len(DIALOGUES) >= 900
    assert len(turns("en")) >= 1690 and len(turns("zh")) >= 900
    assert {(one.licence, one.crisis) for one in DIALOGUES} == {("CC BY 4.0", False)}
    assert [one.id for one in load("open-cer", "")] == [one.id for one in DIALOGUES]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_turn_is_complete_and_short(language: str) -> None:
    _check_turns(turns(language), language)


def _check_turns(found: Sequence[Utterance], language: str) -> None:
    for one in found:
        assert one.stage and one.emotion and one.sentiment and one.intensity and one.strategy
        assert fits(one.emotion, one.sentiment), one.text
        assert 0 < LENGTH[language](one.text) <= LONGEST[language], one.text
        assert one.reasoning is not None
        steps = (one.reasoning.history, one.reasoning.emotion, one.reasoning.strategy)
        low, high = THINKING[language]
        assert low <= sum(map(LENGTH[language], steps)) <= high, steps
        assert len(re.findall("[?？]", one.text)) <= 1, one.text


@pytest.mark.parametrize("language", ["en", "zh"])
def test_all_strategies_and_stages_are_there_and_no_opening_is_a_habit(language: str) -> None:
    found = turns(language)
    strategies, stages = Counter(one.strategy for one in found), Counter(one.stage for one in found)
    assert len(strategies) == 8 and min(strategies.values()) >= 0.04 * len(found)
    assert len(stages) == 3 and min(stages.values()) >= 0.2 * len(found)
    openings = Counter(" ".join(words(one.text)[:3]).lower() for one in found)
    assert openings.most_common(1)[0][1] <= 0.02 * len(found)
    assert len({one.text for one in found}) == len(found), "the same reply twice"


def test_nothing_private_and_no_invented_life() -> None:
    for text in _all_texts():
        assert not PRIVATE.search(text), text
    for text in (*(one.text for one in (*turns("en"), *turns("zh"))), *(one.reply for one in open_cer.contrasts()),
                 *(one.reply for one in open_cer.corrections())):  # fmt: skip
        assert not re.search(r"\bmy own (?:wife|husband|brother|sister|mother|father|dog|cat)\b", text), text
        assert "As an AI" not in text


def _all_texts() -> Iterator[str]:
    for dialogue in (*DIALOGUES, *open_cer.load(crisis=True), *open_cer.load(pictures=True)):
        yield dialogue.situation or ""
        for one in dialogue.utterances:
            yield one.text
            if one.reasoning is not None:
                yield from (one.reasoning.history, one.reasoning.emotion, one.reasoning.strategy)
    for contrast in open_cer.contrasts():
        yield from (contrast.strategy_step, contrast.reply)
    for mended in open_cer.corrections():
        yield from (mended.history_step, mended.emotion_step, mended.strategy_step, mended.reply)


@pytest.mark.parametrize("private", ["me@mail.example", "see www.help.example", "call 1-800-555-0199", "13912345678"])
def test_what_counts_as_private(private: str) -> None:
    assert PRIVATE.search(private) and not PRIVATE.search("from 9 to 5, 24/7, 3.5 km, 2019 and 2020, in 2021")


def test_contrasts_answer_a_moment_under_other_strategies() -> None:
    """At least 1,000 moments have three answers under strategies that are not the moment's own, none of them twice."""
    moments = {item.id.removeprefix("open-cer/"): item for dialogue in DIALOGUES for item in _moments(dialogue)}
    others: Counter[str] = Counter()
    seen: set[str] = set()
    for one in open_cer.contrasts():
        item = moments[one.of]
        assert item.reference_reasoning is not None and STRATEGIES.named(one.strategy, "en"), one.of
        assert 0 < len(words(one.reply)) <= LONGEST[item.language], one.reply
        assert one.reply not in seen and one.reply != item.reference, one.reply
        seen.add(one.reply)
        others[one.of] += one.strategy != item.reference_reasoning.label("strategy")
    assert sum(count >= 3 for count in others.values()) >= 1000
    openings = Counter(" ".join(words(reply)[:3]).lower() for reply in seen)
    assert openings.most_common(1)[0][1] <= 0.02 * len(seen)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_corrections_mend_a_models_answer_at_a_moment_of_the_train_split(language: str) -> None:
    moments = {item.id.removeprefix("open-cer/"): item for dialogue in DIALOGUES for item in _moments(dialogue)}
    found = list(open_cer.corrections(language))  # type: ignore[arg-type]
    assert len(found) >= {"en": 900, "zh": 500}[language]
    for one in found:
        item = moments[one.of]
        assert item.language == language and split_of(item.dialogue) == "train", one.of
        assert parse(one.answer).complete and one.changed in ("none", "little", "much"), one.of
        assert parse(render(one.reasoning(item.language), one.reply)).complete, one.of
        assert fits(one.emotion, one.sentiment) and one.generator
        assert 0 < LENGTH[language](one.reply) <= LONGEST[language] + 10, one.reply
        short = len(words(one.reply)) < 4  # "Who's there?" is the only answer to a knock-knock joke
        assert short or one.reply != item.reference, "the correction of an answer is not the written reply"
    replies = [*(one.text for one in turns(language)), *(one.reply for one in found)]
    openings = Counter(" ".join(words(reply)[:3]).lower() for reply in replies)
    assert openings.most_common(1)[0][1] <= 0.02 * len(replies), openings.most_common(3)
    long = [one.reply for one in found if len(words(one.reply)) >= 4]
    assert len(set(long)) == len(long), "the same reply twice"


def test_labelled_items_have_four_labels_two_labellers_and_one_split_per_dialogue() -> None:
    made = {split: list(read_items(f"open-cer/{split}")) for split in ("train", "valid", "test")}
    assert len(made["test"]) == 574 and len(made["valid"]) == 400 and sum(map(len, made.values())) >= 2800
    for split, items in made.items():
        for item in items:
            assert item.split == split == split_of(item.dialogue) and item.label_source == "author", item.id
            assert item.candidate is not None and item.candidate.reasoning is not None and not item.crisis
            assert None not in [getattr(item.labels, question) for question in QUESTIONS], item.id
            assert {vote.annotator for vote in item.votes} >= {"first", "second"}, item.id
    numbers = json.loads(NUMBERS.read_text("utf-8"))
    everything = [item for items in made.values() for item in items]
    assert numbers["balance"] == balance(everything), "run `python -m runs.open_cer.items` again"
    for question in ("history", "emotion", "strategy"):
        assert numbers["balance"][question]["False"] >= 0.15
    assert min(numbers["balance"]["preference"].values()) >= 0.12
    assert min(one["percent"] for one in numbers["agreement"].values()) >= 0.85
    assert numbers["shortcuts"]["one threshold on overlap"]["preference"] <= 0.60


def _moments(dialogue: Dialogue) -> list[Item]:
    supporter = [turn for turn in merged_turns(dialogue) if turn.speaker == "supporter"]
    return items_at(dialogue, [at for at, turn in enumerate(supporter, start=1) if turn.utterances[-1].reasoning])


def test_the_grid_is_written_cell_by_cell() -> None:
    """Every cell of the plan is one conversation with as many replies as planned, and the counts are those of the plan."""
    written = {one.id.removeprefix("open-cer/"): one for one in DIALOGUES}
    for row in plan():
        replies = sum(one.reasoning is not None for one in written[row[0]].utterances)
        assert replies == int(row[6]), row[0]


def test_crisis_is_apart_and_marked() -> None:
    apart = list(open_cer.load(crisis=True))
    assert apart and all(one.crisis for one in apart)
    assert not {one.id for one in apart} & {one.id for one in DIALOGUES}


def test_readings_cover_every_file() -> None:
    files = {
        path.stem
        for path in open_cer.FOLDER.glob("*.jsonl")
        if not path.stem.startswith(("crisis-", "contrast-", "pictures-", "attacks", "rated-", "everyday-"))
    }
    readings = {
        path.stem: json.loads(path.read_text("utf-8")) for path in (open_cer.FOLDER / "readings").glob("*.json")
    }
    assert files <= set(readings)
    assert all(one["turns"] == one["kept"] + one["edited"] + one["dropped"] for one in readings.values())


def test_rated_replies_stand_at_train_moments_and_have_two_readers() -> None:
    """They are learned from, so none may stand at a moment of validation or test, nor at one of crisis."""
    rated = list(open_cer.rated())
    known = {item.id.removeprefix("open-cer/"): item for item in moments()}
    assert len({one.of for one in rated}) == len(rated) > 300
    assert {open_cer.split_of(known[one.of].dialogue) for one in rated} == {"train"}
    for one in rated:
        texts = [reply.text for reply in one.replies]
        assert len(set(texts)) == len(texts) <= 5 and all(texts)
        for reply in one.replies:
            assert len(reply.ratings) == 2 and all(1 <= value <= 5 and value * 2 % 1 == 0 for value in reply.ratings)


def test_everyday_moments_are_answered_in_plain_words() -> None:
    """No reply talks like a help desk, and none of the moments is one of the test of round 6."""
    moments = list(open_cer.everyday())
    assert len({one.id for one in moments}) == len(moments) > 400
    test = Path(__file__).parents[2] / "runs" / "supporter" / "results" / "round-6" / "everyday.jsonl"
    asked = {json.loads(line)["messages"][-1]["content"] for line in test.read_text("utf-8").splitlines()}
    desk = re.compile(
        r"assist|help you today|here to help|feel free|as an ai|有什么可以帮|请随时|作为AI", re.IGNORECASE
    )
    for one in moments:
        roles = [message["role"] for message in one.messages]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"], one.id
        assert not desk.search(one.reference) and 2 <= len(words(one.reference)) <= 60, one.id
        assert len(one.answers) <= 1 and one.messages[-1]["content"] not in asked, one.id
    replies = [one.reference for one in moments]
    assert len(set(replies)) == len(replies)


def test_no_two_turns_are_alike() -> None:
    """No turn of seven words or more is a near-duplicate of another, whoever says it."""
    texts = [
        (f"{dialogue.id} {place}", one.text)
        for dialogue in DIALOGUES
        for place, one in enumerate(dialogue.utterances)
        if len(words(one.text)) >= 7
    ]
    assert not Signatures(texts).near_duplicates(0.6)
    copied = [*texts, ("a copy", texts[0][1] + " ok")]
    assert [one.id for one in Signatures(copied).near_duplicates(0.6)] == ["a copy"]


def _said_elsewhere(data: Path, name: str) -> list[Utterance]:
    if not (data / name).is_dir():
        pytest.skip(f"{name} is not at {data}; set COMPEER_DATA to the folder of corpora")
    options = {"split": "train"} if name == "esconv" else {}
    found = (one for one in load(name, data / name, **options) if isinstance(one, Dialogue))
    return [one for dialogue in found for one in dialogue.utterances]


@pytest.mark.parametrize("name", OTHERS)
def test_no_turn_is_taken_from_another_corpus(data: Path, name: str) -> None:
    """No turn of nine words or more is a near-duplicate of one in another corpus; shorter ones are everyone's."""
    theirs = [(f"{name} {place}", one.text) for place, one in enumerate(_said_elsewhere(data, name))]
    ours = [(one.id, text.text) for one in DIALOGUES for text in one.utterances]
    texts = [(key, text) for key, text in (*ours, *theirs) if len(words(text)) >= 9]
    found = Signatures(texts).near_duplicates(0.6)
    assert not [one for one in found if one.id.startswith(name) != one.kept.startswith(name)]


def test_more_varied_than_esconv(data: Path) -> None:
    """Distinct-2 of our replies and of as many words of theirs: more text has fewer new pairs."""
    theirs = [one.text for one in _said_elsewhere(data, "esconv") if one.speaker == "supporter"]
    ours = [one.text for one in turns("en")]
    random.Random(0).shuffle(theirs)
    amount = sum(len(words(text)) for text in ours)
    same = islice((word for text in theirs for word in words(text)), amount)
    assert distinct_2(ours) >= distinct_2([" ".join(same)])


def test_attacks_stand_at_test_moments_with_the_verdict_that_they_deserve() -> None:
    """Sixty-four bad answers that a judge must see through; moment and reference are those of the corpus as it is now."""
    attacks = list(read_items(open_cer.FOLDER / "attacks.jsonl"))
    kinds = Counter((item.language, item.trace["attack"]) for item in attacks)
    assert len({item.id for item in attacks}) == len(attacks) == len(usable(attacks))
    assert kinds.total() >= 60 and sum(count for (one, _), count in kinds.items() if one == "zh") >= 20
    assert set(kinds) == {
        (one, kind) for one in ("en", "zh") for kind in ("shuffled", "other", "generic", "turned", "flattery")
    }
    assert min(kinds.values()) >= 4
    moments = {item.id: item for dialogue in DIALOGUES for item in _moments(dialogue)}
    for item in attacks:
        moment = moments[item.id.split("/attack-")[0]]
        assert split_of(item.dialogue) == item.split == "test", item.id
        assert (item.history, item.reference, item.reference_reasoning) == (
            moment.history,
            moment.reference,
            moment.reference_reasoning,
        ), f"{item.id}: the moment was edited; bring the attack up to date"
        assert item.candidate is not None and item.candidate.response != item.reference
        assert item.label_source == "author" and item.labels.preference == "reference"
        kept = item.candidate.reasoning, item.reference_reasoning
        for step in STEPS:  # a step of the moment's own author is true, an attacked one is not
            same = len({one.text(step) for one in kept if one is not None}) == 1
            assert getattr(item.labels, step) is same, f"{item.id} {step}"


def test_conversations_with_pictures_are_asked_for_and_follow_the_guide() -> None:
    shown = list(open_cer.load(pictures=True))
    assert [one.language for one in shown] == ["en"] * 8 + ["zh"] * 4
    assert not any(turn.images for one in DIALOGUES for turn in one.utterances)
    assert {one.id for one in load("open-cer", "", split="all")} == {one.id for one in (*DIALOGUES, *shown)}
    with pytest.raises(CorpusError, match="pictures"):
        list(load("open-cer", "", split="nothing"))
    used = [Path(image) for one in shown for turn in one.utterances for image in turn.images]
    assert sorted(path.name for path in used) == sorted(path.name for path in (open_cer.FOLDER / "pictures").iterdir())
    assert {path.stem for path in used} == set(SCENES) and all(path.stat().st_size < 12_000 for path in used)
    for dialogue in shown:
        assert [bool(one.images) for one in dialogue.utterances] == [bool(one.seen) for one in dialogue.utterances]
        assert dialogue.extra["author"].endswith("second reader: language model")
        _check_turns([one for one in dialogue.utterances if one.speaker == "supporter"], dialogue.language)


def test_rows_with_and_without_pictures_mix_in_every_form(tmp_path: Path) -> None:
    """Import, build, published Parquet and export; the pictures open again, and text formats leave their rows out."""
    from PIL import Image

    done = compeer("corpus", "import", "open-cer", "--split", "all", "--out", str(tmp_path / "all.jsonl"))
    assert done.returncode == 0, done.stderr
    mixed = list(read(tmp_path / "all.jsonl"))
    chosen = [one for one in mixed if any(turn.images for turn in one.utterances)] + mixed[:20]
    assert len(chosen) == 32
    write_rows(tmp_path / "some.jsonl", chosen)
    source = CorpusSource("plain", path=str(tmp_path / "some.jsonl"))
    build(Build(name="mixed", out=str(tmp_path / "out"), corpora=(source,), silver={"per_dialogue": 2}))
    items = list(read_items(tmp_path / "out" / "dataset"))
    seen = [item for item in items if any(turn.images for turn in item.history)]
    assert 0 < len(seen) < len(items)
    for path in {image for item in seen for turn in item.history for image in turn.images}:
        assert Image.open(path).size == (320, 240)
    loaded = pytest.importorskip("datasets").load_dataset(str(tmp_path / "out" / "dataset"), cache_dir=str(tmp_path))
    rows = [row for part in loaded.values() for row in part]
    assert sum(bool(row["images"]) for row in rows) == len(seen) and len(rows) == len(items)
    counts: Counter[str] = Counter()
    written = list(export(items, "trl-sft", counts))
    assert counts["picture not seen"] == len(seen) and len(written) == counts["rows"] > 0


def test_the_card_is_counted_from_the_files() -> None:
    card = CARD.read_text("utf-8")
    assert counted_again(card) == card, "rows were added or edited; run `python -m runs.open_cer.card`"
    for part in PARTS:
        assert f"<!-- {part}: counted -->" in card
    assert counted_again(card.replace("| exploration | ", "| exploration | 1")) == card
    assert card.index("Limits first") < card.index("## What it is")
    assert PICTURE.name in card and PICTURE.read_bytes()[:4] == b"\x89PNG" and PICTURE.stat().st_size < 150_000


def test_datasets_loads_the_folder_as_it_lies_here(tmp_path: Path) -> None:
    """Every configuration of the card has the rows of its files, and every file belongs to one."""
    datasets = pytest.importorskip("datasets")
    front = yaml.safe_load(CARD.read_text("utf-8").split("---\n")[1])
    assert front["license"] == "cc-by-4.0" and front["language"] == ["en", "zh"]
    covered: list[str] = []
    for config in front["configs"]:
        loaded = datasets.load_dataset(str(open_cer.FOLDER), config["config_name"], cache_dir=str(tmp_path))
        assert set(loaded) == {part["split"] for part in config["data_files"]}
        for part in config["data_files"]:
            files = sorted(open_cer.FOLDER.glob(part["path"]))
            covered += [file.name for file in files]
            rows = [json.loads(line) for file in files for line in decompressed(file).splitlines()]
            assert len(loaded[part["split"]]) == len(rows) > 0, config
            assert _filled(loaded[part["split"]][0]) == _filled(rows[0]), config
    assert sorted(covered) == sorted(file.name for file in open_cer.FOLDER.glob("*.jsonl*"))


def decompressed(file: Path) -> str:
    whole = file.read_bytes()
    return (gzip.decompress(whole) if file.suffix == ".gz" else whole).decode()


def _filled(value: object) -> object:
    """A row without what is empty: `datasets` has every column in every row."""
    if isinstance(value, dict):
        return {key: _filled(entry) for key, entry in value.items() if entry not in (None, [], "")}
    return [_filled(entry) for entry in value] if isinstance(value, list) else value


def test_the_command_needs_no_path(tmp_path: Path) -> None:
    done = compeer("corpus", "import", "open-cer", "--out", str(tmp_path / "own.jsonl"))
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "own.jsonl").read_text("utf-8").splitlines()) == len(DIALOGUES)
