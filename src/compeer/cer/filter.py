"""The filter: what no reader would take for two people talking is taken out, with the reason kept.

The paper has Qwen2.5-72B remove incoherent dialogues, artificial style and what is no dialogue, over 23 % of all.
So do we, with any model, and with prompts of our own, since the paper's are in a supplement we do not have. The
answer is structured: three booleans and a sentence.

Before that come checks that need no model, so that no call is spent on keyboard noise (FailedESConv has some), a reply
that changes into German half-way (EmoLLM), a conversation that runs in a circle (CPsyCounD), or a monologue. The limits
were set on these corpora, so that what they drop is what a reader would drop too. Duplicates need all dialogues, so
they are found in a pass of their own and kept in a table (`write_duplicates`): a stage that remembered what it has seen
would decide differently after a restart, and on each worker of a cluster. What stays is marked where it discloses a
crisis.

The dialogue is shown as JSON, with angle brackets escaped, because it is material: tags, chat template tokens or
verdicts inside it must not be read as anything else. Of a long one the middle is left out, and the gap is told.

`DropReport` says what was dropped, by reason and by corpus, beside the paper's 23 %. That is one number for its whole
collection, removed by a model alone, so the share that the model removed is shown apart. Requests that failed are no
verdicts: they are counted, but not as dropped. It is read from a run's files.

    compeer cer filter dialogues.jsonl --out kept.jsonl
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from compeer.cer.duplicates import Duplicate, text_of
from compeer.cer.prompts import as_data, prompts
from compeer.dialogue import Dialogue, read_rows, write_rows
from compeer.dialogue.jsonl import decode_dialogue
from compeer.errors import UserError
from compeer.models.ask import ask_json
from compeer.models.request import Request, instructed
from compeer.pipeline.ledger import measure
from compeer.pipeline.stage import Reject, Stage, Tools
from compeer.reasoning.ontology import Language, words
from compeer.reasoning.schema import TAG
from compeer.safety import crisis_words
from compeer.typed import from_plain

if TYPE_CHECKING:
    from rich.table import Table

#: every reason `check` and the table of duplicates can give, in the order they are looked for
CODES: tuple[str, ...] = (
    "empty", "one-sided", "too-short", "too-long", "garbage", "wrong-language", "repeated",
    "duplicate", "near-duplicate",
)  # fmt: skip

Share = Annotated[float, Meta(ge=0, le=1)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much is too much. A Chinese character counts as a word, as everywhere."""

    min_rounds: int = 2
    max_utterance_words: int = 1_500
    max_dialogue_words: int = 10_000
    max_foreign: Share = 0.25  # of the words, in another script than the declared language's
    min_common: Share = 0.1  # of English words, among the commonest; the corpora lie between 0.27 and 0.6
    max_repeated: Share = 0.3  # of the utterances


# One of these is enough: the text was never said, it is the envelope of some model's output.
_ENVELOPE = re.compile(r"<\|[a-z_]+\|>|<</?SYS>>|\[/?INST\]|</?s>|\{\{[^{}]*\}\}|\ufffd", re.IGNORECASE)
# These may slip into a real conversation now and then. Italics do so in MESC's subtitles, and are not counted.
_MARKUP = re.compile(
    r"</?(?!i\b|b\b|em\b|strong\b|u\b)[a-zA-Z][^<>]{0,80}>|&(?:nbsp|lt|gt|amp|quot|#\d{2,5});|```"
    r"|\\u[0-9a-f]{4}|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|â€.|Ã[\x80-\xbf]"
)
_LETTER = re.compile(r"\w")
_HAN = re.compile(r"[㐀-鿿]")
_OTHER = re.compile(r"[^\W\d_A-Za-zªºÀ-ɏ㐀-鿿]")  # a letter that is neither Latin nor Chinese
_COMMON = frozenset(
    words(
        "the i you to and of is it that was my me for have with are be not so what your but do this just on can if "
        "how at we they he she about i'm it's don't i've that's"
    )
)
_SAID_OFTEN = 4  # an utterance of fewer words ("yes", "I know") may come back


def check(dialogue: Dialogue, limits: Limits = Limits()) -> Reject | None:
    """Why this dialogue should go no further, or None."""
    for reason, detail in _faults(dialogue, limits):
        return Reject(dialogue.id, reason, detail, dialogue)
    return None


def _faults(dialogue: Dialogue, limits: Limits) -> Iterator[tuple[str, str]]:
    """(reason, detail) of everything that is wrong, the plainest first; computed only as far as it is read."""
    text = text_of(dialogue)
    if not _LETTER.search(text):
        yield "empty", "there is not a single letter in it"
    speakers = [utterance.speaker for utterance in dialogue.utterances]
    for speaker in ("seeker", "supporter"):
        if speaker not in speakers:
            yield "one-sided", f"the {speaker} never speaks"
    rounds = sum(one == "supporter" and before != one for one, before in zip(speakers, ["", *speakers], strict=False))
    if rounds < limits.min_rounds:
        yield "too-short", f"{rounds} rounds; at least {limits.min_rounds} are asked for"
    said = [words(utterance.text.lower().replace("’", "'")) for utterance in dialogue.utterances]
    longest = max(range(len(said)), key=lambda number: len(said[number]))
    if len(said[longest]) > limits.max_utterance_words:
        yield "too-long", f"utterance {longest + 1} has {len(said[longest])} words"
    every = [word for utterance in said for word in utterance]
    if len(every) > limits.max_dialogue_words:
        yield "too-long", f"{len(every)} words in all"
    other = len(_OTHER.findall(text))
    yield from _garbage(text, every, other, len(said))
    yield from _foreign(dialogue.language, text, every, other, limits)
    often = Counter(" ".join(utterance) for utterance in said if len(utterance) >= _SAID_OFTEN)
    again = often.total() - len(often)
    if again > limits.max_repeated * len(said):
        yield "repeated", f"{again} of {len(said)} utterances were said before, word for word"


def _garbage(text: str, every: list[str], other: int, utterances: int) -> Iterator[tuple[str, str]]:
    envelope = _ENVELOPE.search(text) or TAG.search(text)
    if envelope:
        yield "garbage", f"it contains {envelope.group()!r}"
    markup = _MARKUP.findall(text)
    if len(markup) > utterances / 5:
        yield "garbage", f"{len(markup)} pieces of markup, such as {markup[0]!r}"
    if 2 * (sum(map(len, every)) + other) < sum(map(len, text.split())):
        yield "garbage", "less than half of it is letters"
    held = sum(len(set(word)) < 3 for word in every if len(word) > 5)
    if held > 0.3 * len(every):
        yield "garbage", f"{held} of {len(every)} words are a key or two held down"


def _foreign(language: Language, text: str, every: list[str], other: int, limits: Limits) -> Iterator[tuple[str, str]]:
    chinese = len(_HAN.findall(text))
    latin = len(every) - chinese
    own, foreign = (chinese, latin + other) if language == "zh" else (latin, chinese + other)
    if foreign > limits.max_foreign * (own + foreign):
        script = {"zh": "Chinese", "en": "Latin"}[language]
        yield "wrong-language", f"declared {language}, but {foreign} of {own + foreign} words are not {script}"
    if language == "en" and len(every) >= 12:  # a few words prove nothing
        common = sum(map(_COMMON.__contains__, every))
        if common < limits.min_common * len(every):
            yield "wrong-language", f"declared en, but only {common} of {len(every)} words are common English ones"


ROLE = "filter"
#: the model's reasons, the gravest first
REASONS: tuple[str, ...] = ("not-a-dialogue", "incoherent", "artificial-style")
_UTTERANCE_SIGNS = 1_600  # an utterance that is longer is shown without its middle


class FilterOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What can be set for this stage. `duplicates` and its hash come from `write_duplicates`."""

    max_words: int = 1_200  # of a dialogue, shown to the model
    limits: Limits = Limits()
    duplicates: str | None = None
    duplicates_hash: str | None = None


class FilterVerdict(msgspec.Struct, frozen=True):
    """What the model says. The sentence comes first: a model that has said what it sees judges better."""

    reason: str
    coherent: bool
    natural: bool
    dialogue: bool

    @property
    def faults(self) -> list[str]:
        fine = (self.dialogue, self.coherent, self.natural)
        return [reason for reason, is_fine in zip(REASONS, fine, strict=True) if not is_fine]


PROMPTS = prompts("filter")


async def filter_dialogue(dialogue: Dialogue, tools: Tools) -> Dialogue | Reject:
    """The dialogue, marked where it discloses a crisis, or why it goes no further; without a model, by the checks."""
    options = from_plain(tools.options, FilterOptions)
    rejected = check(dialogue, options.limits) or _duplicate(dialogue, options)
    if not rejected and tools.models:
        verdict, _ = await ask_json(tools.models[ROLE], question(dialogue, options.max_words), FilterVerdict)
        if verdict.faults:
            first, *more = verdict.faults
            also = f" (also {', '.join(more)})" if more else ""
            return Reject(dialogue.id, first, verdict.reason + also, dialogue)
    return rejected or flag(dialogue)


def flag(dialogue: Dialogue) -> Dialogue:
    """The dialogue, marked when anything in it discloses suicide or self-harm. A mark that is there already stays.

    The paper says nothing about such dialogues. Here they are kept, because a supporter must be able to meet them, and
    marked, so that preference and reinforcement sets can leave them out until someone has reviewed them.
    """
    found = crisis_words("\n".join([dialogue.situation or "", *(utterance.text for utterance in dialogue.utterances)]))
    if not found:
        return dialogue
    return msgspec.structs.replace(dialogue, crisis=True, extra={**dialogue.extra, "crisis_words": found})


STAGE = Stage(
    name="filter",
    function=filter_dialogue,
    reads=Dialogue,
    writes=Dialogue,
    roles=(ROLE,),
    prompts=tuple(PROMPTS.values()),
    calls_per_row=1.0,
    tokens_per_call=(1_200, 60),
    options=FilterOptions,
    decode=decode_dialogue,
)
#: for those who have no model, or want to see first what the checks alone do
CHECKS_ONLY = msgspec.structs.replace(STAGE, roles=(), prompts=(), calls_per_row=0.0)


def question(dialogue: Dialogue, max_words: int = 1_200) -> Request:
    material = as_data({"conversation": shown(dialogue, max_words)})
    return instructed(PROMPTS[dialogue.language], material, max_tokens=300, temperature=0.0)


def shown(dialogue: Dialogue, max_words: int) -> list[dict[str, Any]]:
    """The utterances as the model sees them: all that fit, else beginning and end, and how many are left out."""
    rows: list[dict[str, Any]] = [
        {"speaker": utterance.speaker, "text": _shortened(utterance.text)} for utterance in dialogue.utterances
    ]
    lengths = [len(words(row["text"])) for row in rows]
    left, first, last = max_words, 0, len(rows)  # rows[:first] and rows[last:] are shown
    while first < last:
        take = first if first <= len(rows) - last else last - 1  # by turns from the beginning and from the end
        left -= lengths[take]
        if left < 0 and first:
            return [*rows[:first], {"omitted": last - first}, *rows[last:]]
        first, last = (first + 1, last) if take == first else (first, last - 1)
    return rows


def write_duplicates(table: str | Path, duplicates: Iterable[Duplicate]) -> dict[str, str]:
    """Write the table of duplicates, and give the options that make the filter use it."""
    write_rows(table, duplicates)
    return {"duplicates": str(table), "duplicates_hash": measure(table)[0]}


def _duplicate(dialogue: Dialogue, options: FilterOptions) -> Reject | None:
    if options.duplicates is None:
        return None
    found = _table(options.duplicates, options.duplicates_hash).get(dialogue.id)
    if found is None:
        return None
    detail = f"the same as {found.kept}" if found.exact else f"like {found.kept} (similarity {found.similarity:.2f})"
    return Reject(dialogue.id, "duplicate" if found.exact else "near-duplicate", detail, dialogue)


@lru_cache(maxsize=2)
def _table(path: str, expected: str | None) -> dict[str, Duplicate]:
    if not Path(path).exists() or (expected and measure(path)[0] != expected):
        raise UserError(f"The table of duplicates {path} is not the one this run was started with; make it again.")
    return {row.id: row for row in read_rows(path, Duplicate)}


def _shortened(text: str) -> str:
    if len(text) <= _UTTERANCE_SIGNS:
        return text
    return f"{text[: _UTTERANCE_SIGNS // 2]} […] {text[-_UTTERANCE_SIGNS // 2 :]}"


PAPER = 0.23  # "removes over 23 % of the data"
_UNKNOWN = "(unreadable)"


class CorpusDrops(msgspec.Struct):
    kept: int = 0
    crisis: int = 0  # of the kept
    dropped: Counter[str] = msgspec.field(default_factory=Counter)  # by reason, checks and model
    failed: Counter[str] = msgspec.field(default_factory=Counter)  # no verdict: no answer, broken rows, errors

    @property
    def judged(self) -> int:
        return self.kept + self.dropped.total()

    @property
    def share(self) -> float:
        """Dropped, of those with a verdict."""
        return self.dropped.total() / self.judged if self.judged else 0.0

    @property
    def share_by_model(self) -> float:
        """Dropped by the model, of those it was asked about: the paper's number."""
        by_model = sum(self.dropped[reason] for reason in REASONS)
        asked = self.kept + by_model
        return by_model / asked if asked else 0.0


class DropReport(msgspec.Struct):
    total: CorpusDrops
    corpora: dict[str, CorpusDrops]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for --json."""
        return {
            "paper": {"dropped": PAPER},
            "total": _plain(self.total),
            "corpora": {name: _plain(corpus) for name, corpus in self.corpora.items()},
        }


class _Kept(msgspec.Struct):
    source: str
    crisis: bool = False


class _Rejected(msgspec.Struct):
    reason: str
    row: Any = None


def count(output: str | Path, rejects: str | Path) -> DropReport:
    """The report on a run of the filter, from its two files, streamed."""
    total, corpora = CorpusDrops(), defaultdict[str, CorpusDrops](CorpusDrops)
    for kept in read_rows(output, _Kept):
        for drops in (corpora[kept.source], total):
            drops.kept += 1
            drops.crisis += kept.crisis
    for rejected in read_rows(rejects, _Rejected):
        row = rejected.row if isinstance(rejected.row, dict) else {}
        verdict = rejected.reason in CODES or rejected.reason in REASONS
        for drops in (corpora[str(row.get("source", _UNKNOWN))], total):
            (drops.dropped if verdict else drops.failed)[rejected.reason] += 1
    return DropReport(total, dict(sorted(corpora.items())))


def table(report: DropReport) -> Table:
    """A row for each reason, a column for each corpus."""
    from rich.table import Table
    from rich.text import Text

    columns = [*report.corpora.values(), report.total]
    caption = f"The paper: over {PAPER:.0%} dropped, by Qwen2.5-72B. Here: {report.total.share:.1%}."
    shown = Table(title="What the filter dropped", caption=caption, title_justify="left", caption_justify="left")
    shown.add_column("")
    for name in (*report.corpora, "all"):
        shown.add_column(Text(name), justify="right")
    shown.add_row("dialogues judged", *(f"{corpus.judged:,}" for corpus in columns), end_section=True)
    for reason in (*CODES, *REASONS):
        if report.total.dropped[reason]:
            shown.add_row(reason, *(_number(corpus.dropped[reason]) for corpus in columns))
    shown.add_section()
    shown.add_row("dropped", *(f"{corpus.share:.1%}" for corpus in columns))
    if any(report.total.dropped[reason] for reason in REASONS):
        shown.add_row("dropped by the model", *(f"{corpus.share_by_model:.1%}" for corpus in columns))
    shown.add_row("kept", *(f"{corpus.kept:,}" for corpus in columns))
    shown.add_row("of these, crisis", *(_number(corpus.crisis) for corpus in columns))
    for reason in sorted(report.total.failed):
        shown.add_row(f"no verdict: {reason}", *(_number(corpus.failed[reason]) for corpus in columns))
    return shown


def _number(value: int) -> str:
    return f"{value:,}" if value else ""


def _plain(corpus: CorpusDrops) -> dict[str, Any]:
    return {
        "judged": corpus.judged,
        "kept": corpus.kept,
        "crisis": corpus.crisis,
        "dropped": dict(corpus.dropped),
        "dropped_share": round(corpus.share, 4),
        "dropped_by_model_share": round(corpus.share_by_model, 4),
        "no_verdict": dict(corpus.failed),
    }
