"""The judge's conversation as the tokens of a model.

A conversation is always rendered whole by the model's own chat template and tokenised whole, as in training
(`compeer.training.encode`), so that its tokens are the same, whatever a tokenizer does at the seams. What two
conversations share is found afterwards, by comparing tokens. The possible verdicts are found the same way: the
rendering with each answer against the rendering that waits for one.

Pictures stand in the history. The processor that turns them into pixels also makes one placeholder into many; that
is done once a group, and the tokens before and after are the tokenizer's.

A case on its way through a local judge: its conversations, the rows they take, the verdicts so far.

Groups of cases through a local model: every history once, every turn once, many rows at a time.

A pack holds groups of one language. The instruction is encoded once for all, each group's history once, then each
candidate goes its turns: the verdict is read from the logits, appended as the judge's answer, and the next question
follows on the same cache. Where conversations part (the three questions of a PRM, the two orders of a pair) the cache
branches. Rows that have no further turn leave.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, Generic

import msgspec
import torch

from compeer.cer.item import QUESTIONS, Question
from compeer.models.checkpoint import Checkpoint, picture
from compeer.models.request import ModelError, images_of
from compeer.reasoning.ontology import Language
from compeer.reward.case import Case
from compeer.reward.conversation import Thread, messages
from compeer.reward.judge import Judgement, PairVerdict, StepVerdict
from compeer.reward.prefix_cache import Branches, Ragged, is_ragged
from compeer.reward.verdict import PAIR_WORDS, STEP_WORDS, Choice, preference_of
from compeer.reward.verdict_trie import K, Path, Trie, likeliest, shared
from compeer.training.encode import Words

Chat = list[dict[str, Any]]


class Options(msgspec.Struct, Generic[K], frozen=True):
    """The verdicts a turn may end in. `back`: tokens at the end of the open question that an answer replaces."""

    words: dict[K, str]
    trie: Trie[K]
    back: int
    spoken: dict[K, int]  # how many tokens of its path are words; the rest ends the turn


class Pictures(msgspec.Struct, frozen=True):
    """The pictures of a history: its tokens as the tokenizer and as the processor write them, pixels, positions."""

    plain: list[int]
    seen: list[int]
    inputs: dict[str, torch.Tensor]
    positions: torch.Tensor | None


class Rendering:
    """Template, tokenizer and processor of one checkpoint."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.model, self.tokenizer, self.processor = checkpoint.model, checkpoint.tokenizer, checkpoint.processor
        self._words = Words(self.tokenizer, self.processor)
        self._rope_index = getattr(getattr(self.model, "model", None), "get_rope_index", None)
        self._steps: dict[Language, Options[bool]] = {}
        self._pairs: dict[Language, Options[Choice]] = {}

    @property
    def axes(self) -> int:
        """Of a token's position: three in models that place pictures in time, height and width."""
        return 3 if self._rope_index is not None else 1

    def tokens(self, chats: Sequence[Chat], *, waiting: bool = True) -> list[list[int]]:
        """The tokens of whole conversations, `waiting` for the judge's next answer or ended by its last."""
        texts = [self._text(chat, waiting) for chat in chats]
        found: list[list[int]] = self.tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
        return found

    def opening(self, system: str) -> list[int]:
        """What every conversation with this instruction begins with."""
        one, other = self.tokens([[_system(system), {"role": "user", "content": text}] for text in ("a", "。")])
        return one[: shared(one, other)]

    def steps(self, language: Language) -> Options[bool]:
        if language not in self._steps:
            self._steps[language] = self._options(STEP_WORDS[language])
        return self._steps[language]

    def pair(self, language: Language) -> Options[Choice]:
        if language not in self._pairs:
            self._pairs[language] = self._options(PAIR_WORDS[language])
        return self._pairs[language]

    def pictures(self, chat: Chat) -> Pictures | None:
        """The pictures of a conversation that waits for its first answer."""
        paths = images_of(chat)
        if not paths:
            return None
        if self.processor is None:
            raise ModelError("This judge cannot see images. Leave them out of the history, or use a vision model.")
        inputs = dict(
            self.processor(text=[self._text(chat, True)], images=[picture(path) for path in paths], return_tensors="pt")
        )
        seen: list[int] = inputs.pop("input_ids")[0].tolist()
        (plain,) = self.tokens([chat])
        before = shared(plain, seen)
        after = min(shared(plain[::-1], seen[::-1]), len(plain) - before)
        positions = self._positions(seen, inputs)
        seen = seen[: len(seen) - after]
        return Pictures(
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

    def _options(self, words: dict[K, str]) -> Options[K]:
        asked: Chat = [_system("?"), {"role": "user", "content": "?"}]
        (waiting,) = self.tokens([asked])

        def answered(text: str) -> Chat:
            return [*asked, {"role": "assistant", "content": text}]

        ended = dict(zip(words, self.tokens([answered(text) for text in words.values()], waiting=False), strict=True))
        going_on = self.tokens([answered(text + " Because") for text in words.values()], waiting=False)
        start = min(shared(waiting, tokens) for tokens in ended.values())
        return Options(
            words=dict(words),
            trie=Trie({key: tuple(tokens[start:]) for key, tokens in ended.items()}),
            back=len(waiting) - start,
            spoken={
                key: shared(tokens, longer) - start
                for (key, tokens), longer in zip(ended.items(), going_on, strict=True)
            },
        )

    def _text(self, chat: Chat, waiting: bool) -> str:
        return self._words.render(self._words.chat(chat), ask=waiting)


def _system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


class Docket:
    """One case with its conversations; `size` says how long they are, roughly, for sorting."""

    def __init__(self, case: Case, threads: Sequence[Thread], size: int) -> None:
        self.case, self.threads, self.size = case, list(threads), size
        self.pictures = bool(threads) and bool(images_of(messages(threads[0], [])))
        self.failure: str | None = None
        self.clear()

    def clear(self) -> None:
        """Forget the verdicts: the case will be judged again."""
        self.steps: dict[str, StepVerdict] = {}
        self.pairs: dict[bool, PairVerdict] = {}
        self.tokens = 0

    def judgement(self) -> Judgement:
        first, second, third = (self.steps.get(question, StepVerdict()) for question in QUESTIONS[:3])
        return Judgement(
            id=self.case.id,
            complete=self.case.complete,
            steps=(first, second, third),
            pairs=tuple(self.pairs[thread.candidate_first] for thread in self.threads if self._compared(thread)),
            failure=self.failure,
            tokens=self.tokens,
        )

    def _compared(self, thread: Thread) -> bool:
        return thread.turns[-1].question == "preference" and thread.candidate_first in self.pairs


class Line:
    """A row of the batch: the threads that are still one conversation, and the judge's answers in it."""

    def __init__(
        self, docket: Docket, threads: list[Thread], group: int, pictures: Pictures | None, answers: Sequence[str] = ()
    ) -> None:
        self.docket, self.threads, self.group, self.pictures = docket, threads, group, pictures
        self.answers = list(answers)

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
        verdict = likeliest(probabilities)
        if self.question != "preference":
            self.docket.steps[self.question] = StepVerdict(verdict, probabilities[True], reason)
            return
        for thread in self.threads:
            first = thread.candidate_first
            by_origin = {preference_of(choice, first): share for choice, share in probabilities.items()}
            self.docket.pairs[first] = PairVerdict(first, preference_of(verdict, first), by_origin, reason)

    def following(self) -> list[Line]:
        """The rows that this one becomes for its next turn."""
        return [
            Line(self.docket, threads, self.group, self.pictures, self.answers)
            for threads in parted(self.threads, len(self.answers))
        ]


def parted(threads: Sequence[Thread], turn: int) -> list[list[Thread]]:
    """The threads that have this turn, those together that ask the same in it."""
    found: list[list[Thread]] = []
    for thread in threads:
        if len(thread.turns) > turn:
            same = next((others for others in found if others[0].turns[turn] == thread.turns[turn]), None)
            if same is None:
                found.append([thread])
            else:
                same.append(thread)
    return found


_REASON = 60  # tokens of a reason, at most
_ON_CPU = 4  # rows at a time: more of them bring nothing there, and what is padded is computed all the same

Rows = Branches | Ragged


class Walk:
    """A model at work on packs of groups. `encoded` counts its tokens, without padding."""

    def __init__(self, rendering: Rendering, batch: int, explain: bool) -> None:
        self.rendering, self.explain = rendering, explain
        self.rows = min(batch, _ON_CPU) if rendering.model.device.type == "cpu" else batch
        self.encoded = 0
        self._openings: dict[str, Rows] = {}
        tokenizer, stated = rendering.tokenizer, rendering.model.generation_config.eos_token_id
        self._ends = {tokenizer.eos_token_id, *([stated] if isinstance(stated, int) else stated or [])}

    @torch.inference_mode()
    def judge(self, pack: Sequence[Sequence[Docket]]) -> None:
        """Judge groups of one language; verdicts go into the dockets."""
        rows, lines, tokens = self._histories(pack)
        own = [
            len(whole) - len(rows.tokens[line.group]) + line.later // 4
            for line, whole in zip(lines, tokens, strict=True)
        ]
        for chunk in _chunks(lines, own, self.rows):
            chosen = [lines[number] for number in chunk]
            self._turns(rows.branch([line.group for line in chosen]), chosen, [tokens[number] for number in chunk])

    def _histories(self, pack: Sequence[Sequence[Docket]]) -> tuple[Rows, list[Line], list[list[int]]]:
        """One row a group, with what its conversations have in common; and the conversations, at their first turn."""
        lines: list[list[Line]] = []
        for number, group in enumerate(pack):
            pictures = self.rendering.pictures(messages(group[0].threads[0], []))
            lines.append([Line(d, threads, number, pictures) for d in group for threads in parted(d.threads, 0)])
        tokens = [self._tokens(own) for own in lines]
        opening = self._opening(pack[0][0], tokens)
        begun = len(opening.tokens[0])
        blocks: list[list[int]] = []
        positions: dict[int, torch.Tensor] = {}
        pixels: dict[str, list[torch.Tensor]] = {}
        for number, asked in enumerate(tokens):
            common = min(min(shared(asked[0], other), len(other) - 1) for other in asked) if len(asked) > 1 else 0
            if pictures := lines[number][0].pictures:
                common = max(common, len(pictures.seen))
                for name, value in pictures.inputs.items():
                    pixels.setdefault(name, []).append(value)
                if pictures.positions is not None:
                    positions[number] = _continued(pictures.positions, common)[:, begun:]
            blocks.append(asked[0][begun:common])
        rows = opening.branch([0] * len(pack))
        together = {name: torch.cat(values) for name, values in pixels.items()}
        self._extend(rows, blocks, None, [group[0] for group in pack], positions=positions, pictures=together)
        return rows, [line for own in lines for line in own], [asked for own in tokens for asked in own]

    def _opening(self, docket: Docket, tokens: list[list[list[int]]]) -> Rows:
        """The instruction, which all conversations of a language begin with; kept from call to call."""
        system = docket.threads[0].system
        if system not in self._openings:
            rows = self._begin()
            self._extend(rows, [self.rendering.opening(system)], None, [docket])
            self._openings[system] = rows
        opening = self._openings[system]
        begun = opening.tokens[0]
        alike = all(asked[: len(begun)] == begun for own in tokens for asked in own)
        return opening if alike else self._begin()

    def _begin(self) -> Rows:
        """One conversation without a word."""
        model = self.rendering.model
        return Ragged(model) if is_ragged(model) else Branches(model, 1, self.rendering.axes)

    def _turns(self, rows: Rows, lines: list[Line], tokens: list[list[int]]) -> None:
        """Turn after turn, as long as there is a row with a question left."""
        while True:
            self._turn(rows, lines, tokens)
            following = [(number, line) for number, before in enumerate(lines) for line in before.following()]
            if not following:
                return
            parents = [number for number, _ in following]
            rows = rows if parents == list(range(len(rows))) else rows.branch(parents)
            lines = [line for _, line in following]
            tokens = self._tokens(lines)

    def _turn(self, rows: Rows, lines: list[Line], tokens: list[list[int]]) -> None:
        """One question of every row: encode what is new in it, read the verdict, and record it."""
        asked = [self._options(line) for line in lines]
        blocks: list[list[int]] = []
        wanted: list[range] = []
        ends: list[int] = []  # where each question ends and an answer would begin
        for number, (options, whole) in enumerate(zip(asked, tokens, strict=True)):
            question = whole[: len(whole) - options.back]
            known = min(shared(rows.tokens[number], question), len(question) - 1)
            rows.keep(number, known)
            way = options.trie.ways[0]
            blocks.append([*question[known:], *way])
            wanted.append(range(len(question) - known - 1, len(question) - known + len(way)))
            ends.append(len(question))
        logits = self._extend(rows, blocks, wanted, [line.docket for line in lines])
        read = [
            {options.trie.ways[0][:depth]: row for depth, row in enumerate(found)}
            for options, found in zip(asked, logits, strict=True)
        ]
        self._other_ways(rows, lines, asked, ends, read)
        said = [_probabilities(options, found) for options, found in zip(asked, read, strict=True)]
        reasons = self._reasons(rows, lines, asked, ends, said) if self.explain else [""] * len(lines)
        for line, options, probabilities, reason in zip(lines, asked, said, reasons, strict=True):
            line.record(probabilities, reason)
            line.answers.append(options.words[likeliest(probabilities)])

    def _other_ways(
        self,
        rows: Rows,
        lines: list[Line],
        asked: list[Options[Any]],
        ends: list[int],
        read: list[dict[Path, torch.Tensor]],
    ) -> None:
        """The branching points that do not lie on the first way, each way on a branch of its own."""
        others = [(number, way) for number, options in enumerate(asked) for way in options.trie.ways[1:]]
        if not others:
            return
        branch = rows.branch([number for number, _ in others])
        for at, (number, _) in enumerate(others):
            branch.keep(at, ends[number])
        ways = [way for _, way in others]
        owners = [lines[number].docket for number, _ in others]
        logits = self._extend(branch, ways, [range(len(way)) for way in ways], owners)
        for (number, way), found in zip(others, logits, strict=True):
            read[number] |= {way[: depth + 1]: row for depth, row in enumerate(found)}

    def _reasons(
        self,
        rows: Rows,
        lines: list[Line],
        asked: list[Options[Any]],
        ends: list[int],
        said: list[dict[Any, float]],
    ) -> list[str]:
        """What the judge says after each verdict, for people to read; no part of the conversation."""
        branch = rows.branch(range(len(rows)))
        blocks: list[list[int]] = []
        last: list[set[int]] = []
        for number, (options, probabilities) in enumerate(zip(asked, said, strict=True)):
            branch.keep(number, ends[number])
            verdict = likeliest(probabilities)
            path, spoken = options.trie.paths[verdict], options.spoken[verdict]
            blocks.append(list(path[:spoken]))
            last.append(self._ends | set(path[spoken : spoken + 1]))
        written: list[list[int]] = [[] for _ in lines]
        going = list(range(len(lines)))
        for _ in range(_REASON):
            owners = [lines[number].docket for number in going]
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

    def _options(self, line: Line) -> Options[Any]:
        language = line.docket.case.language
        return self.rendering.pair(language) if line.question == "preference" else self.rendering.steps(language)

    def _tokens(self, lines: Sequence[Line]) -> list[list[int]]:
        """Each line's conversation up to its question, with pictures as the model sees them."""
        found = self.rendering.tokens([line.chat for line in lines])
        return [
            tokens if line.pictures is None else _seen(tokens, line.pictures)
            for line, tokens in zip(lines, found, strict=True)
        ]

    def _extend(
        self,
        rows: Rows,
        blocks: Sequence[Sequence[int]],
        wanted: Sequence[Sequence[int]] | None,
        owners: Sequence[Docket],
        **pictures: Any,
    ) -> list[torch.Tensor]:
        for block, docket in zip(blocks, owners, strict=True):
            docket.tokens += len(block)
            self.encoded += len(block)
        return rows.extend(blocks, wanted, **pictures) if isinstance(rows, Branches) else rows.extend(blocks, wanted)


def _probabilities(options: Options[K], read: dict[Path, torch.Tensor]) -> dict[K, float]:
    branches = options.trie.branches
    return options.trie.probabilities(lambda point: read[point][list(branches[point])].tolist())


def _seen(tokens: list[int], pictures: Pictures) -> list[int]:
    if tokens[: len(pictures.plain)] != pictures.plain:
        raise ValueError("a conversation does not begin with the pictures of its group")
    return [*pictures.seen, *tokens[len(pictures.plain) :]]


def _continued(positions: torch.Tensor, length: int) -> torch.Tensor:
    """The positions of a history with pictures, and of the text after it, up to this length."""
    after = int(positions.max()) + 1 + torch.arange(length - positions.shape[1])
    return torch.cat([positions, after.expand(positions.shape[0], -1)], dim=1)


def _chunks(lines: list[Line], lengths: list[int], batch: int) -> Iterator[list[int]]:
    """The lines a batch at a time, those of like length together, because what is padded is computed all the same; a
    line counts as many rows as it will have at its end."""
    chunk: list[int] = []
    rows = 0
    for _, number, line in sorted(zip(lengths, range(len(lines)), lines, strict=True), key=lambda one: one[:2]):
        if chunk and rows + len(line.threads) > batch:
            yield chunk
            chunk, rows = [], 0
        chunk.append(number)
        rows += len(line.threads)
    if chunk:
        yield chunk
