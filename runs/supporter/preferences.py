"""Rounds 5 and 6: the base's own replies, rated by blind readers, and a light adapter that learns from them (on a CPU).

    python -m runs.supporter.preferences moments FOLDER             which moments of open CER's train split are answered
    python -m runs.supporter.preferences write FOLDER BASE          five replies of the base at each; resumable
    python -m runs.supporter.preferences sheets FOLDER PARTS        blind sheets for readers
    python -m runs.supporter.preferences publish FOLDER             FOLDER/ratings-*.jsonl into open CER
    python -m runs.supporter.preferences everyday FOLDER BASE       authors' everyday moments (FOLDER/*.jsonl), with
                                                                    the base's reply, into open CER
    python -m runs.supporter.preferences learn BASE OUT             the adapter, from rated replies and everyday moments
    python -m runs.supporter.preferences test DATA OUT              the moments of round 6's measurement, as CER items
    python -m runs.supporter.preferences pairs OUT                  the same replies as pairs, for `device.py prefer`
    python -m runs.supporter.preferences answer ITEMS BASE ARM OUT [ADAPTER]    replies for `reading.py sheet`

Earlier rounds learned from what authors wrote, and every adapter read worse than the base: it dared to be specific and
misread. Here nothing is learned but which of the base's own replies readers liked better (DPO over all pairs of one
moment whose mean ratings are apart by `APART` or more), so the model stays near what it can do. Since round 6 it also
learns from everyday moments (a hello, thanks, good news, an insult): there an author's short reply stands against the
base's own, with some likelihood, because such a moment has few facts to misread and the base talks like a help desk.

What makes it cheap enough for two cores: the five replies stand behind one prompt in one row, under a mask in which no
reply sees another; only the upper layers learn, so the lower ones run once and are kept; the head sees learned tokens
only. BASE is the de-quantised base (`device.py dequantise`).
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from runs.supporter.device import END, encoded, merged, open_base, rendered, rows_of, save, say

COUNTS = {"en": 240, "zh": 100}
TEMPERATURES = (0.3, 0.8, 0.8, 0.8, 0.8)
MOST, TOP, NUCLEUS = 100, 40, 0.95
APART, BETA, LIKELIHOOD = 1.0, 0.1, 0.05
WRITTEN, OWN, EVERYDAY_LIKELIHOOD = 4.0, 2.0, 0.3  # marks of an author's reply and of the base's, at everyday moments
LEARNING = {"first_layer": 16, "rank": 16, "rate": 1e-4, "epochs": 2, "batch": 8, "seed": 1, "seconds": 3600}


def moments(folder: Path) -> None:
    """Moments of the train split that a person ended and nobody has rated, one per dialogue while there are any."""
    from compeer.corpora import open_cer
    from runs.supporter.rows import moments as written
    from runs.supporter.rows import name_of, prompt, split_of

    known = {one.of for one in open_cer.rated()}
    rng, rows = random.Random(5), []
    for language, count in COUNTS.items():
        pools: dict[str, list[Any]] = defaultdict(list)
        for item in written():
            if (
                item.language == language
                and split_of(item.dialogue) == "train"
                and item.history[-1].speaker == "seeker"
                and name_of(item) not in known
            ):
                pools[item.dialogue].append(item)
        for pool in pools.values():
            rng.shuffle(pool)
        names, drawn = sorted(pools), []
        rng.shuffle(names)
        while len(drawn) < count:
            drawn += [pools[name].pop() for name in names if pools[name]]
        rows += [
            {"id": item.id, "language": language, "messages": prompt(item, think="off", length="full")}
            for item in drawn[:count]
        ]
    rng.shuffle(rows)
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / "moments.jsonl", rows)
    say(len(rows), "moments")


def write_rows(path: Path, rows: list[dict[str, Any]], mode: str = "w") -> None:
    with path.open(mode, encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write(folder: Path, base: str, at_once: int = 16) -> None:
    """Replies to every moment that has none yet; each prompt is read once for its five replies."""
    import torch

    torch.manual_seed(5)
    model, tokenizer = open_base(base)
    out = folder / "replies.jsonl"
    done = {row["id"] for row in rows_of(out)} if out.exists() else set()
    rows = [row for row in rows_of(folder / "moments.jsonl") if row["id"] not in done]
    end, began = tokenizer.convert_tokens_to_ids(END), time.time()
    for first in range(0, len(rows), at_once * 4):
        window = [(row, encoded(rendered(row["messages"]), tokenizer)[0]) for row in rows[first : first + at_once * 4]]
        window.sort(key=lambda one: len(one[1]))
        for at in range(0, len(window), at_once):
            part = window[at : at + at_once]
            texts = _replies(model, tokenizer, [ids for _, ids in part], end, TEMPERATURES)
            found = [
                {"id": row["id"], "replies": texts[place * len(TEMPERATURES) : (place + 1) * len(TEMPERATURES)]}
                for place, (row, _) in enumerate(part)
            ]
            write_rows(out, found, "a")
            say(first + at + len(part), "of", len(rows), f"{time.time() - began:.0f} s")


def _replies(model: Any, tokenizer: Any, prompts: list[list[int]], end: int, heats: tuple[float, ...]) -> list[str]:
    """One reply per prompt and temperature. The replies of a prompt are written side by side in its row, each word at
    the place it has in its own reply and blind to the other replies, so that the prompt is kept and read once."""
    import torch

    longest, each = max(map(len, prompts)), len(heats)
    ids = torch.full((len(prompts), longest), end)
    seen = torch.zeros((len(prompts), longest), dtype=torch.long)
    for at, prompt in enumerate(prompts):
        ids[at, longest - len(prompt) :] = torch.tensor(prompt)
        seen[at, longest - len(prompt) :] = 1
    heat = torch.tensor(heats)[None, :, None]
    own = torch.eye(each, dtype=torch.bool)
    texts: list[list[list[int]]] = [[[] for _ in heats] for _ in prompts]
    with torch.inference_mode():
        place = (seen.cumsum(1) - 1).clamp(min=0)
        read = model(input_ids=ids, attention_mask=seen, position_ids=place, use_cache=True, logits_to_keep=1)
        cache, logits = read.past_key_values, read.logits[:, -1:].expand(-1, each, -1)
        rows, place = torch.arange(len(prompts)), place[:, -1:].expand(-1, each)
        mask = seen.bool()[:, None].expand(-1, each, -1)
        going = torch.ones(len(prompts), each, dtype=torch.bool)
        for _ in range(MOST):
            best, names = (logits.float() / heat).topk(TOP, dim=-1)
            shares = best.softmax(-1)
            shares[shares.cumsum(-1) - shares > NUCLEUS] = 0
            drawn = torch.multinomial(shares.flatten(0, 1), 1).view(len(rows), each, 1)
            words = names.gather(2, drawn)[..., 0]
            going = going & (words != end)
            for row, column in going.nonzero().tolist():
                texts[int(rows[row])][column].append(int(words[row, column]))
            left = going.any(1).nonzero()[:, 0]
            if not len(left):
                break
            if len(left) < len(rows):
                cache.batch_select_indices(left)
                rows, words, going, place, mask = rows[left], words[left], going[left], place[left], mask[left]
            mask = torch.cat([mask, own.expand(len(rows), -1, -1)], 2)
            place = place + 1
            read = model(
                input_ids=words, attention_mask=mask[:, None], position_ids=place, past_key_values=cache, use_cache=True
            )
            cache, logits = read.past_key_values, read.logits
    return [tokenizer.decode(reply).strip() for row in texts for reply in row]


def answer(items: Path, base: str, arm: str, out: Path, adapter: str | None = None, at_once: int = 24) -> None:
    """One reply per CER item at temperature 0.3, as `reading.py` wants them; resumable."""
    import torch

    from compeer.cer.item import read_items
    from runs.supporter.rows import prompt

    torch.manual_seed(1)
    model, tokenizer = open_base(base)
    model = merged(model, adapter)
    done = {row["id"] for row in rows_of(out)} if out.exists() else set()
    rows = [
        (item.id, encoded(rendered(prompt(item, think="off", length="full")), tokenizer)[0])
        for item in read_items(items)
        if item.id not in done
    ]
    rows.sort(key=lambda row: len(row[1]))
    for at in range(0, len(rows), at_once):
        part = rows[at : at + at_once]
        texts = _replies(model, tokenizer, [ids for _, ids in part], tokenizer.convert_tokens_to_ids(END), (0.3,))
        found = [{"id": name, "arm": arm, "output": text} for (name, _), text in zip(part, texts, strict=True)]
        write_rows(out, found, "a")
        say(at + len(part), "of", len(rows))


def test_moments(data: Path, out: Path) -> None:
    """The 240 moments of round 6: 80 of ESConv train and 40 of SMILE that no reading has used, one per dialogue, and
    the everyday moments of its result folder."""
    from compeer.cer.item import Item, PastTurn, items_at
    from compeer.corpora import load
    from compeer.dialogue import Dialogue, turns

    results = Path(__file__).parent / "results"
    keys = [json.loads(path.read_text("utf-8")) for path in sorted(results.glob("round-[35]/*-key.json"))]
    read = {row["dialogue"] for key in keys for row in key.values()}
    rng, rows = random.Random(6), []
    for corpus, path, count in (("esconv", "esconv/train.txt", 80), ("smile", "smile", 40)):
        known = [one for one in load(corpus, data / path) if isinstance(one, Dialogue)]
        pools = {}
        for one in known:
            places = range(2, sum(turn.speaker == "supporter" for turn in turns(one)))
            asked = [item for item in items_at(one, places) if item.history[-1].speaker == "seeker"]
            if asked and one.id not in read and not one.crisis:
                pools[one.id] = asked
        rows += [rng.choice(pools[name]) for name in rng.sample(sorted(pools), count)]
    for row in rows_of(results / "round-6" / "everyday.jsonl"):
        who = {"user": "seeker", "assistant": "supporter"}
        past = tuple(PastTurn(who[one["role"]], one["content"]) for one in row["messages"])  # type: ignore[arg-type]
        rows.append(
            Item(
                id=row["id"],
                dialogue=row["id"],
                source="everyday",
                licence="CC BY 4.0",
                language=row["language"],
                round=sum(turn.speaker == "supporter" for turn in past) + 1,
                history=past,
                reference=row["reference"],
            )
        )
    from compeer.dialogue.jsonl import write_rows as write_items

    say(write_items(out, rows), "moments")


def sheets(folder: Path, parts: int) -> None:
    """Blind sheets: the conversation and its different replies in random order; the key stays in the folder."""
    known = {row["id"]: row for row in rows_of(folder / "moments.jsonl")}
    key: dict[str, dict[str, str]] = {}
    blocks: list[list[str]] = [[] for _ in range(parts)]
    for number, row in enumerate(rows_of(folder / "replies.jsonl")):
        replies = [reply for reply in dict.fromkeys(row["replies"]) if reply]
        random.Random(f"sheet {row['id']}").shuffle(replies)
        name = f"m{number + 1:03d}"
        key[name] = {"id": row["id"], **{"ABCDE"[at]: reply for at, reply in enumerate(replies)}}
        who = {"user": "Seeker", "assistant": "Supporter"}
        talk = "\n".join(f"{who[one['role']]}: {one['content']}" for one in known[row["id"]]["messages"][1:])
        shown = "\n".join(f"[{letter}] {reply}" for letter, reply in key[name].items() if letter != "id")
        blocks[number % parts].append(f"## {name}\n{talk}\n\n{shown}\n")
    (folder / "key.json").write_text(json.dumps(key, ensure_ascii=False, indent=1), "utf-8")
    for at, part in enumerate(blocks):
        (folder / f"sheet-{at + 1}.md").write_text("\n".join(part), "utf-8")


def publish(folder: Path) -> None:
    """Moments, replies and ratings to the end of `rated-*.jsonl` of open CER, from FOLDER/ratings-*.jsonl."""
    from compeer.corpora.open_cer import FOLDER

    key = json.loads((folder / "key.json").read_text("utf-8"))
    given: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(folder.glob("ratings-*.jsonl")):
        for row in rows_of(path):
            for letter, value in row["ratings"].items():
                given[row["id"]][letter].append(float(value))
    languages = {row["id"]: row["language"] for row in rows_of(folder / "moments.jsonl")}
    for language in COUNTS:
        rows = [
            {
                "of": key[name]["id"].removeprefix("open-cer/"),
                "generator": "1.5b",
                "replies": [{"text": key[name][letter], "ratings": letters[letter]} for letter in sorted(letters)],
            }
            for name, letters in sorted(given.items())
            if languages[key[name]["id"]] == language
        ]
        write_rows(FOLDER / f"rated-{language}.jsonl", rows, "a")
        say(language, len(rows))


def everyday(folder: Path, base: str, at_once: int = 24) -> None:
    """Authors' moments with the base's own reply, at temperature 0.3, as `everyday-*.jsonl` of open CER."""
    import torch

    from compeer.corpora.open_cer import FOLDER
    from compeer.reasoning import system_prompt

    torch.manual_seed(6)
    model, tokenizer = open_base(base)
    rows = [row for path in sorted(folder.glob("*.jsonl")) for row in rows_of(path)]
    asked = []
    for row in rows:
        messages = [{"role": "system", "content": system_prompt(row["language"], think="off")}, *row["messages"]]
        asked.append(encoded(rendered(messages), tokenizer)[0])
    order = sorted(range(len(rows)), key=lambda at: len(asked[at]))
    end = tokenizer.convert_tokens_to_ids(END)
    for first in range(0, len(order), at_once):
        part = order[first : first + at_once]
        texts = _replies(model, tokenizer, [asked[at] for at in part], end, (0.3,))
        for text, at in zip(texts, part, strict=True):
            rows[at]["answers"] = [text] if text else []
        say(first + len(part), "of", len(rows))
    for language in COUNTS:
        write_rows(FOLDER / f"everyday-{language}.jsonl", [row for row in rows if row["language"] == language])


def everyday_rows() -> list[dict[str, Any]]:
    """Each everyday moment as a prompt, with the author's reply and the base's."""
    from compeer.corpora import open_cer
    from compeer.reasoning import system_prompt

    return [
        {
            "id": one.id,
            "messages": [
                {"role": "system", "content": system_prompt(one.language, think="off")},
                *map(dict, one.messages),
            ],
            "replies": {one.reference: WRITTEN} | {reply: OWN for reply in one.answers if reply != one.reference},
            "likelihood": EVERYDAY_LIKELIHOOD,
        }
        for one in open_cer.everyday()
    ]


def rated() -> list[dict[str, Any]]:
    """Each rated moment as a prompt, with its replies and the means of their ratings."""
    from compeer.corpora import open_cer
    from runs.supporter.rows import moments as written
    from runs.supporter.rows import name_of, prompt

    known = {name_of(item): item for item in written()}
    return [
        {
            "id": one.of,
            "messages": prompt(known[one.of], think="off", length="full"),
            "replies": {reply.text: reply.mean for reply in one.replies},
        }
        for one in open_cer.rated()
    ]


def pairs(out: Path) -> None:
    """The same as pairs for `device.py prefer`: every two replies of a moment that are apart."""
    rows = [
        {"id": one["id"], "messages": one["messages"], "chosen": good, "rejected": bad}
        for one in rated()
        for good, high in one["replies"].items()
        for bad, low in one["replies"].items()
        if high - low >= APART
    ]
    random.Random(1).shuffle(rows)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_rows(out, rows)
    say(len(rows), "pairs")


class Upper:
    """The base with a LoRA on its layers from `first_layer` on. What the layers below make of a row is worked out once
    and kept, so that two cores can learn."""

    def __init__(self, base: str, *, first_layer: int, rank: int, seed: int) -> None:
        import torch
        from peft import LoraConfig, get_peft_model

        torch.manual_seed(seed)
        model, self.tokenizer = open_base(base)
        self.first, self.count = first_layer, model.config.num_hidden_layers
        self.model = get_peft_model(
            model,
            LoraConfig(
                r=rank, lora_alpha=2 * rank, lora_dropout=0.0,
                target_modules=[f"{one}_proj" for one in ("q", "k", "v", "o", "gate", "up", "down")],
                layers_to_transform=list(range(first_layer, self.count)), task_type="CAUSAL_LM",
            ),
        )  # fmt: skip
        for module in self.model.modules():
            if hasattr(module, "cast_input_dtype_enabled"):
                module.cast_input_dtype_enabled = False
        whole = self.model.base_model.model
        self.core, self.head = whole.model, whole.lm_head
        self.weights = [one for one in self.model.parameters() if one.requires_grad]

    def lower(self, ids: Any, places: Any, mask: Any) -> Any:
        """What comes out below the first layer that learns."""
        import torch

        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            return self._layers(self.core.embed_tokens(ids), 0, self.first, places, mask)

    def upper(self, hidden: Any, places: Any, mask: Any) -> Any:
        """What the head gets; under autocast."""
        return self.core.norm(self._layers(hidden, self.first, self.count, places, mask))

    def _layers(self, hidden: Any, low: int, high: int, places: Any, mask: Any) -> Any:
        turn = self.core.rotary_emb(hidden, places)
        for layer in self.core.layers[low:high]:
            found = layer(hidden, attention_mask=mask, position_ids=places, position_embeddings=turn, use_cache=False)
            hidden = found[0] if isinstance(found, tuple) else found
        return hidden


def learn(base: str, out: str) -> None:
    """DPO over all pairs of a moment that readers told apart, with a little likelihood of the one they liked best."""
    import torch

    began, seed = time.time(), int(LEARNING["seed"])
    rng = random.Random(seed)
    both = Upper(base, first_layer=int(LEARNING["first_layer"]), rank=int(LEARNING["rank"]), seed=seed)
    model, tokenizer, weights = both.model, both.tokenizer, both.weights

    def told(row: dict[str, Any]) -> Any:
        """The log-probability of each reply."""
        with torch.autocast("cpu", torch.bfloat16):
            hidden = both.upper(row["hidden"], row["places"], row["mask"])
            logits = both.head(hidden[0, row["from"]]).float()
        words = -torch.nn.functional.cross_entropy(logits, row["words"], reduction="none")
        return torch.zeros(row["count"]).index_add(0, row["owner"], words)

    rows = []
    for one in [*rated(), *everyday_rows()]:
        row = _packed(one, tokenizer)
        if row is not None:
            rows.append(row)
    rng.shuffle(rows)
    kept_out, rows = rows[: len(rows) // 12], rows[len(rows) // 12 :]
    say("moments", len(rows), "pairs", sum(len(row["pairs"]) for row in rows), "kept out", len(kept_out))
    with torch.no_grad():
        for at, row in enumerate([*rows, *kept_out]):
            row["hidden"] = both.lower(row["ids"], row["places"], row["mask"])
            row["base"] = told(row)
            if at % 40 == 0:
                say("lower layers", at, f"{time.time() - began:.0f} s")

    def compared(row: dict[str, Any]) -> tuple[Any, Any]:
        now = told(row)
        better, worse, gaps = (torch.tensor(column) for column in zip(*row["pairs"], strict=True))
        shift = now - row["base"]
        loss = -(torch.nn.functional.logsigmoid(BETA * (shift[better] - shift[worse])) * gaps).sum() / gaps.sum()
        if row["best"] is not None:
            loss = loss - row["likelihood"] * now[row["best"]] / row["lengths"][row["best"]]
        return loss, ((shift[better] > shift[worse]).float().mean().item(), shift[row["top"]].item())

    optimiser = torch.optim.AdamW(weights, lr=float(LEARNING["rate"]), weight_decay=0.0, betas=(0.9, 0.98))
    batch, epochs = int(LEARNING["batch"]), int(LEARNING["epochs"])
    order = [at for _ in range(epochs) for at in rng.sample(range(len(rows)), len(rows))]
    steps, log = math.ceil(len(order) / batch), []

    def keep() -> None:
        with torch.no_grad():
            found = [compared(row)[1][0] for row in kept_out]
        log[-1]["kept_out_right"] = round(sum(found) / max(1, len(found)), 4)
        say("kept out", log[-1]["kept_out_right"])
        job = {**LEARNING, "beta": BETA, "likelihood": LIKELIHOOD, "apart": APART, "moments": len(rows), "log": log}
        save(model, out, {**job, "seconds_taken": round(time.time() - began)})

    ready = time.time()
    for step in range(steps):  # the rate falls with the steps or with the time, whichever is nearer its end
        done = max(step / steps, (time.time() - ready) / max(1.0, LEARNING["seconds"] - (ready - began)))
        if done >= 1:
            say("out of time after", step, "steps")
            break
        pace = min(1.0, (step + 1) / max(1, 0.1 * steps)) * max(0.1, 0.5 * (1 + math.cos(math.pi * done)))
        for group in optimiser.param_groups:
            group["lr"] = float(LEARNING["rate"]) * pace
        chosen = [rows[at] for at in order[step * batch : (step + 1) * batch]]
        seen = {"loss": 0.0, "right": 0.0, "shift": 0.0}
        for row in chosen:
            loss, (right, shift) = compared(row)
            (loss / len(chosen)).backward()
            for name, value in (("loss", loss.item()), ("right", right), ("shift", shift)):
                seen[name] += value / len(chosen)
        norm = float(torch.nn.utils.clip_grad_norm_(weights, 1.0))
        if math.isfinite(norm):
            optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        log.append({"step": step + 1, **{name: round(value, 4) for name, value in seen.items()}})
        say(f"{step + 1}/{steps}", log[-1], f"norm {norm:.2f} {time.time() - began:.0f} s")
        if (step + 1) % 12 == 0:
            keep()
    keep()


def _packed(one: dict[str, Any], tokenizer: Any) -> dict[str, Any] | None:
    """Prompt and replies as one row of tokens, or None where no two replies were told apart."""
    import torch

    replies = sorted(one["replies"], key=lambda reply: -one["replies"][reply])
    marks = [one["replies"][reply] for reply in replies]
    pairs = [
        (i, j, marks[i] - marks[j])
        for i in range(len(marks)) for j in range(len(marks)) if marks[i] - marks[j] >= APART
    ]  # fmt: skip
    if not pairs:
        return None
    prompt = encoded(rendered(one["messages"]), tokenizer)[0]
    ids, places, owner, start, words, lengths = list(prompt), list(range(len(prompt))), [-1] * len(prompt), [], [], []
    for number, reply in enumerate(replies):
        tokens = tokenizer(reply + END, add_special_tokens=False)["input_ids"]
        start += [len(prompt) - 1, *range(len(ids), len(ids) + len(tokens) - 1)]
        words += tokens
        places += range(len(prompt), len(prompt) + len(tokens))
        owner += [number] * len(tokens)
        ids += tokens
        lengths.append(len(tokens))
    whose = torch.tensor(owner)
    mask = torch.tril(torch.ones(len(ids), len(ids), dtype=torch.bool))
    mask &= (whose[None, :] == -1) | (whose[None, :] == whose[:, None])
    return {
        "ids": torch.tensor([ids]), "places": torch.tensor([places]), "mask": mask[None, None],
        "from": torch.tensor(start),
        "words": torch.tensor(words), "owner": whose[whose >= 0], "count": len(replies), "lengths": lengths,
        "pairs": pairs, "top": 0, "best": 0 if marks[0] >= 3 else None, "likelihood": one.get("likelihood", LIKELIHOOD),
    }  # fmt: skip


def main() -> None:
    do, *rest = sys.argv[1:] or [""]
    if do == "moments":
        moments(Path(rest[0]))
    elif do == "write":
        write(Path(rest[0]), rest[1])
    elif do == "sheets":
        sheets(Path(rest[0]), int(rest[1]))
    elif do == "publish":
        publish(Path(rest[0]))
    elif do == "everyday":
        everyday(Path(rest[0]), rest[1])
    elif do == "test":
        test_moments(Path(rest[0]), Path(rest[1]))
    elif do == "learn":
        learn(*rest)
    elif do == "pairs":
        pairs(Path(rest[0]))
    elif do == "answer":
        answer(Path(rest[0]), rest[1], rest[2], Path(rest[3]), *rest[4:])
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
