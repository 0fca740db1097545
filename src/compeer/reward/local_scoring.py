"""Scoring groups of cases in a local model: every history once, every turn once, many rows at a time.

A conversation is always rendered whole by the model's own chat template and tokenised whole, as in training, so that
its tokens are the same whatever a tokenizer does at the seams. What two conversations share is found afterwards, by
comparing tokens. The possible verdicts are found in the same way: the rendering with each answer against the rendering
that waits for one.

A pack holds groups of one language. The instruction is encoded once for all, each group's history once. Then each
candidate goes through its turns: the verdict is read from the logits and appended as the judge's answer, and the next
question follows on the same cache. Where conversations differ (the three questions of a PRM, the two orders of a pair)
the cache branches. Rows without a further turn leave.

Images are part of the history. The processor that turns them into pixels also replaces one placeholder by many; that
is done once per group, and the tokens before and after are the tokenizer's.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, Generic

import msgspec
import torch

from compeer.cer.item import Question
from compeer.models.checkpoint import ChatTokenizer, Checkpoint, picture
from compeer.models.request import ModelError, images_of
from compeer.reasoning.ontology import Language
from compeer.reward.conversation import JudgeThread, messages
from compeer.reward.judge import OpenCase
from compeer.reward.prefix_cache import PaddedCache
from compeer.reward.verdict import PAIR_WORDS, STEP_WORDS, K, VerdictTrie, likeliest

Chat = list[dict[str, Any]]
_REASON_TOKENS = 60
_CPU_ROWS = 4  # rows per pass on a CPU: more are no faster, and padding is computed like any token


class VerdictOptions(msgspec.Struct, Generic[K], frozen=True):
    """The verdicts that a turn may end in. `back`: tokens at the end of the open question that an answer replaces."""

    words: dict[K, str]
    trie: VerdictTrie[K]
    back: int
    spoken: dict[K, int]  # how many tokens of a path are words; the rest ends the turn


class HistoryPictures(msgspec.Struct, frozen=True):
    """The images of a history: its tokens as the tokenizer and as the processor write them, pixels, positions."""

    plain: list[int]
    seen: list[int]
    inputs: dict[str, torch.Tensor]
    positions: torch.Tensor | None


class ChatRendering:
    """Conversations as tokens: template, tokenizer and processor of one checkpoint."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.model, self.tokenizer, self.processor = checkpoint.model, checkpoint.tokenizer, checkpoint.processor
        self._words = ChatTokenizer(self.tokenizer, self.processor)
        self._rope_index = getattr(getattr(self.model, "model", None), "get_rope_index", None)
        self._known: dict[tuple[bool, Language], VerdictOptions[Any]] = {}

    @property
    def axes(self) -> int:
        """Dimensions of a token's position: three in models that place images in time, height and width."""
        return 3 if self._rope_index is not None else 1

    def tokens(self, chats: Sequence[Chat], *, waiting: bool = True) -> list[list[int]]:
        """The tokens of whole conversations, `waiting` for the judge's next answer or ended by its last."""
        texts = [self._text(chat, waiting) for chat in chats]
        found: list[list[int]] = self.tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
        return found

    def opening(self, system: str) -> list[int]:
        """The tokens that every conversation with this instruction begins with."""
        one, other = self.tokens([[_system(system), {"role": "user", "content": text}] for text in ("a", "。")])
        return one[: common_length(one, other)]

    def options(self, question: Question, language: Language) -> VerdictOptions[Any]:
        pair = question == "preference"
        if (pair, language) not in self._known:
            words: dict[Any, str] = dict(PAIR_WORDS[language] if pair else STEP_WORDS[language])
            self._known[pair, language] = self._options(words)
        return self._known[pair, language]

    def pictures(self, chat: Chat) -> HistoryPictures | None:
        """The images of a conversation that waits for its first answer."""
        paths = images_of(chat)
        if not paths:
            return None
        if self.processor is None:
            raise ModelError("This judge cannot see images. Remove them from the history, or use a vision model.")
        inputs = dict(
            self.processor(text=[self._text(chat, True)], images=[picture(path) for path in paths], return_tensors="pt")
        )
        seen: list[int] = inputs.pop("input_ids")[0].tolist()
        (plain,) = self.tokens([chat])
        before = common_length(plain, seen)
        after = min(common_length(plain[::-1], seen[::-1]), len(plain) - before)
        positions = self._positions(seen, inputs)
        seen = seen[: len(seen) - after]
        return HistoryPictures(
            plain=plain[: len(plain) - after],
            seen=seen,
            inputs={
                name: value.to(self.model.device)
                for name, value in inputs.items()
                if not (value.ndim == 2 and value.shape == inputs["attention_mask"].shape)
            },
            positions=None if positions is None else positions[:, : len(seen)],
        )

    def _positions(self, seen: list[int], inputs: dict[str, Any]) -> torch.Tensor | None:
        if self._rope_index is None:
            return None
        ids = torch.tensor([seen])
        given: dict[str, Any] = {
            "input_ids": ids,
            "image_grid_thw": inputs["image_grid_thw"],
            "attention_mask": torch.ones_like(ids),
        }
        if "mm_token_type_ids" in inspect.signature(self._rope_index).parameters:
            given["mm_token_type_ids"] = (ids == self.model.config.image_token_id).int()
        positions: torch.Tensor = self._rope_index(**given)[0]
        return positions[:, 0]

    def _options(self, words: dict[K, str]) -> VerdictOptions[K]:
        asked: Chat = [_system("?"), {"role": "user", "content": "?"}]
        (waiting,) = self.tokens([asked])

        def answered(text: str) -> Chat:
            return [*asked, {"role": "assistant", "content": text}]

        ended = dict(zip(words, self.tokens([answered(text) for text in words.values()], waiting=False), strict=True))
        going_on = self.tokens([answered(text + " Because") for text in words.values()], waiting=False)
        start = min(common_length(waiting, tokens) for tokens in ended.values())
        return VerdictOptions(
            words=dict(words),
            trie=VerdictTrie({key: tuple(tokens[start:]) for key, tokens in ended.items()}),
            back=len(waiting) - start,
            spoken={
                key: common_length(tokens, longer) - start
                for (key, tokens), longer in zip(ended.items(), going_on, strict=True)
            },
        )

    def _text(self, chat: Chat, waiting: bool) -> str:
        return self._words.render(self._words.chat(chat), ask=waiting)


def _system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two sequences have in common at the beginning.

    >>> common_length([1, 2, 3], [1, 2, 4]), common_length([1], [1, 2]), common_length([], [1])
    (2, 1, 0)
    """
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))


class BatchRow(msgspec.Struct):
    """A row of the batch: the threads that are still one conversation, and the judge's answers in it."""

    opened: OpenCase
    threads: list[JudgeThread]
    group: int
    pictures: HistoryPictures | None
    answers: list[str] = []

    @property
    def chat(self) -> Chat:
        """The conversation up to its open question."""
        return messages(self.threads[0], self.answers)

    @property
    def later(self) -> int:
        """Characters of the turns after the open question, for sorting."""
        return sum(len(str(turn.content)) for turn in self.threads[0].turns[len(self.answers) + 1 :])

    @property
    def question(self) -> Question:
        return self.threads[0].turns[len(self.answers)].question

    def record(self, probabilities: dict[Any, float], reason: str) -> None:
        """Keep the verdict on the open question; `probabilities` are those of its options."""
        for thread in self.threads:
            verdict = likeliest(probabilities)
            self.opened.record(self.question, thread.candidate_first, verdict, probabilities, reason)

    def next_rows(self) -> list[BatchRow]:
        """The rows that this one becomes for its next turn."""
        return [
            BatchRow(self.opened, threads, self.group, self.pictures, list(self.answers))
            for threads in split_by_turn(self.threads, len(self.answers))
        ]


def split_by_turn(threads: Sequence[JudgeThread], turn: int) -> list[list[JudgeThread]]:
    """The threads that have this turn, grouped by what they ask in it."""
    found: list[list[JudgeThread]] = []
    for thread in threads:
        if len(thread.turns) > turn:
            same = next((others for others in found if others[0].turns[turn] == thread.turns[turn]), None)
            if same is None:
                found.append([thread])
            else:
                same.append(thread)
    return found


class LocalScorer:
    """Scores packs of groups with one model. `encoded` counts its tokens, without padding."""

    def __init__(self, rendering: ChatRendering, batch: int, explain: bool) -> None:
        self.rendering, self.explain = rendering, explain
        self.batch_rows = min(batch, _CPU_ROWS) if rendering.model.device.type == "cpu" else batch
        self.encoded = 0
        self._openings: dict[str, PaddedCache] = {}
        tokenizer, stated = rendering.tokenizer, rendering.model.generation_config.eos_token_id
        self._end_tokens = {tokenizer.eos_token_id, *([stated] if isinstance(stated, int) else stated or [])}

    @torch.inference_mode()
    def judge(self, pack: Sequence[Sequence[OpenCase]]) -> None:
        """Judge groups of one language; verdicts go into the open cases."""
        cache, rows, tokens = self._histories(pack)
        own = [
            len(whole) - len(cache.tokens[row.group]) + row.later // 4 for row, whole in zip(rows, tokens, strict=True)
        ]
        for chunk in _chunks(rows, own, self.batch_rows):
            chosen = [rows[number] for number in chunk]
            self._turns(cache.branch([row.group for row in chosen]), chosen, [tokens[number] for number in chunk])

    def _histories(self, pack: Sequence[Sequence[OpenCase]]) -> tuple[PaddedCache, list[BatchRow], list[list[int]]]:
        """One cache row per group with what its conversations share, and the conversations at their first turn."""
        rows: list[list[BatchRow]] = []
        for number, group in enumerate(pack):
            pictures = self.rendering.pictures(messages(group[0].threads[0], []))
            rows.append(
                [BatchRow(one, same, number, pictures) for one in group for same in split_by_turn(one.threads, 0)]
            )
        tokens = [self._tokens(own) for own in rows]
        opening = self._opening(pack[0][0], tokens)
        begun = len(opening.tokens[0])
        blocks: list[list[int]] = []
        positions: dict[int, torch.Tensor] = {}
        pixels: dict[str, list[torch.Tensor]] = {}
        for number, asked in enumerate(tokens):
            common = 0
            if len(asked) > 1:
                common = min(min(common_length(asked[0], other), len(other) - 1) for other in asked)
            if pictures := rows[number][0].pictures:
                common = max(common, len(pictures.seen))
                for name, value in pictures.inputs.items():
                    pixels.setdefault(name, []).append(value)
                if pictures.positions is not None:
                    positions[number] = _continued(pictures.positions, common)[:, begun:]
            blocks.append(asked[0][begun:common])
        cache = opening.branch([0] * len(pack))
        together = {name: torch.cat(values) for name, values in pixels.items()}
        self._extend(cache, blocks, None, [group[0] for group in pack], positions=positions, pictures=together)
        return cache, [row for own in rows for row in own], [asked for own in tokens for asked in own]

    def _opening(self, opened: OpenCase, tokens: list[list[list[int]]]) -> PaddedCache:
        """The instruction that all conversations of a language begin with, kept from call to call."""
        system = opened.threads[0].system
        if system not in self._openings:
            cache = self._begin()
            self._extend(cache, [self.rendering.opening(system)], None, [opened])
            self._openings[system] = cache
        opening = self._openings[system]
        begun = opening.tokens[0]
        alike = all(asked[: len(begun)] == begun for own in tokens for asked in own)
        return opening if alike else self._begin()

    def _begin(self) -> PaddedCache:
        return PaddedCache(self.rendering.model, 1, self.rendering.axes)

    def _turns(self, cache: PaddedCache, rows: list[BatchRow], tokens: list[list[int]]) -> None:
        """Turn after turn, until no row has a question left."""
        while True:
            self._turn(cache, rows, tokens)
            following = [(number, row) for number, before in enumerate(rows) for row in before.next_rows()]
            if not following:
                return
            parents = [number for number, _ in following]
            cache = cache if parents == list(range(len(cache))) else cache.branch(parents)
            rows = [row for _, row in following]
            tokens = self._tokens(rows)

    def _turn(self, cache: PaddedCache, rows: list[BatchRow], tokens: list[list[int]]) -> None:
        """Ask one question of every row: encode its new tokens, read and record the verdict."""
        asked = [self.rendering.options(row.question, row.opened.case.language) for row in rows]
        blocks: list[list[int]] = []
        wanted: list[range] = []
        ends: list[int] = []  # where each question ends and an answer would begin
        for number, (options, whole) in enumerate(zip(asked, tokens, strict=True)):
            question = whole[: len(whole) - options.back]
            known = min(common_length(cache.tokens[number], question), len(question) - 1)
            cache.keep(number, known)
            way = options.trie.way
            blocks.append([*question[known:], *way])
            wanted.append(range(len(question) - known - 1, len(question) - known + len(way)))
            ends.append(len(question))
        logits = self._extend(cache, blocks, wanted, [row.opened for row in rows])
        said = [_probabilities(options.trie, read) for options, read in zip(asked, logits, strict=True)]
        reasons = self._reasons(cache, rows, asked, ends, said) if self.explain else [""] * len(rows)
        for row, options, probabilities, reason in zip(rows, asked, said, reasons, strict=True):
            row.record(probabilities, reason)
            row.answers.append(options.words[likeliest(probabilities)])

    def _reasons(
        self,
        cache: PaddedCache,
        rows: list[BatchRow],
        asked: list[VerdictOptions[Any]],
        ends: list[int],
        said: list[dict[Any, float]],
    ) -> list[str]:
        """The reasons after each verdict, for people. They do not enter the conversation."""
        branch = cache.branch(range(len(cache)))
        blocks: list[list[int]] = []
        last: list[set[int]] = []
        for number, (options, probabilities) in enumerate(zip(asked, said, strict=True)):
            branch.keep(number, ends[number])
            verdict = likeliest(probabilities)
            path, spoken = options.trie.paths[verdict], options.spoken[verdict]
            blocks.append(list(path[:spoken]))
            last.append(self._end_tokens | set(path[spoken : spoken + 1]))
        written: list[list[int]] = [[] for _ in rows]
        going = list(range(len(rows)))
        for _ in range(_REASON_TOKENS):
            owners = [rows[number].opened for number in going]
            logits = self._extend(branch, blocks, [[len(block) - 1] for block in blocks], owners)
            chosen = [int(found[0].argmax()) for found in logits]
            stay = [at for at, number in enumerate(going) if chosen[at] not in last[number]]
            for at in stay:
                written[going[at]].append(chosen[at])
            if not stay:
                break
            branch = branch if len(stay) == len(going) else branch.branch(stay)
            blocks, going = [[chosen[at]] for at in stay], [going[at] for at in stay]
        texts = self.rendering.tokenizer.batch_decode(written, skip_special_tokens=True)
        return [text.strip().partition("\n")[0] for text in texts]

    def _tokens(self, rows: Sequence[BatchRow]) -> list[list[int]]:
        """Each row's conversation up to its question, with images as the model sees them."""
        found = self.rendering.tokens([row.chat for row in rows])
        return [
            tokens if row.pictures is None else _seen(tokens, row.pictures)
            for row, tokens in zip(rows, found, strict=True)
        ]

    def _extend(
        self,
        cache: PaddedCache,
        blocks: Sequence[Sequence[int]],
        wanted: Sequence[Sequence[int]] | None,
        owners: Sequence[OpenCase],
        **pictures: Any,
    ) -> list[torch.Tensor]:
        for block, opened in zip(blocks, owners, strict=True):
            opened.tokens += len(block)
            self.encoded += len(block)
        return cache.extend(blocks, wanted, **pictures)


def _probabilities(trie: VerdictTrie[K], read: torch.Tensor) -> dict[K, float]:
    """`read` has the logits after each token of the trie's way, and before the first."""
    return trie.probabilities(lambda point: read[len(point), list(trie.branches[point])].tolist())


def _seen(tokens: list[int], pictures: HistoryPictures) -> list[int]:
    if tokens[: len(pictures.plain)] != pictures.plain:
        raise ValueError("a conversation does not begin with the images of its group")
    return [*pictures.seen, *tokens[len(pictures.plain) :]]


def _continued(positions: torch.Tensor, length: int) -> torch.Tensor:
    """The positions of a history with images, and of the text after it, up to this length."""
    after = int(positions.max()) + 1 + torch.arange(length - positions.shape[1])
    return torch.cat([positions, after.expand(positions.shape[0], -1)], dim=1)


def _chunks(rows: list[BatchRow], lengths: list[int], batch: int) -> Iterator[list[int]]:
    """Numbers of the rows, a batch at a time, similar lengths together, because padding costs as much as text.

    A row counts as many rows as it will have at its end.
    """
    chunk: list[int] = []
    size = 0
    for _, number in sorted(zip(lengths, range(len(rows)), strict=True)):
        if chunk and size + len(rows[number].threads) > batch:
            yield chunk
            chunk, size = [], 0
        chunk.append(number)
        size += len(rows[number].threads)
    if chunk:
        yield chunk
