"""Tuning a small BERT to hear risk: torch and numpy alone, so that it also runs on a machine that has nothing else.

    python tuning.py FOLDER LANGUAGE en4,en5 en11,en12

`learning` writes FOLDER/LANGUAGE.npz (the network to start from, the examples as pieces of words, kinds, writers) and
reads what is written here. The writers named last are left for later (`further`). First the network reads all other
examples but those of the writers named first, ROUNDS times; what it says of these is FOLDER/LANGUAGE.first.npz. Then it
reads all of them once more: FOLDER/LANGUAGE.tuned.npz.

The later writers write as people do who need to talk, where the earlier ones wrote to be mistaken. A network that is
tuned reads them in one more round, with EARLIER times as many of the earlier examples, so that it does not forget. For
each half of them this is done once without them; what is then said of their examples is FOLDER/LANGUAGE.heard.npz, the
honest measure by which `learning` sets the thresholds. What has read all is shipped: FOLDER/LANGUAGE.further.npz.

The pieces' own vectors stay as they were, and so may the lowest KEPT layers, which are then computed once: with half of
them kept it takes half the time, and unread writers are heard a little less well. The last layer tells the seven kinds
apart, and the risk is what all risky kinds together have over "none": learning what kind of risk an example is makes
for a better answer to whether it is one. Some words are hidden in every round, so that no single one decides. On one
machine the same seed gives the same network.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

ROUNDS = 3
BATCH = 64
KEPT = 0  # lower layers that stay as they were
RATE = 2e-4  # of the uppermost layer
SLOWER = 0.85  # from layer to layer, downwards
HEAD_RATE = 1e-3
DECAY = 0.01
HIDDEN_WORDS = 0.1
SMOOTH = 0.05  # no label is taken for certain
STEPS = 31  # of the weights that are shipped: the fewer, the smaller the file
WORD_STEPS = 15  # of the pieces' vectors, of which a message has many
EARLIER = 3
FURTHER_RATE = 1e-4
KIND_SHARE = 0.5  # of the loss over kinds, beside that over risk


class Network(nn.Module):
    """A BERT whose mean over the message goes through one linear layer. Names of weights as in `reader`."""

    def __init__(self, start: dict[str, Any], heads: int, kinds: int) -> None:
        super().__init__()
        self.heads = heads
        weights = {
            name.replace(".", "_"): torch.tensor(np.asarray(value, dtype=np.float32)) for name, value in start.items()
        }
        self.depth = max(int(name.split("_")[0]) for name in weights if name[0].isdigit()) + 1
        self.kept = KEPT
        if "head_w" not in weights:
            weights["head_w"] = nn.Linear(weights["words"].shape[1], kinds).weight.detach()
            weights["head_b"] = torch.zeros(kinds)
        self.weights = nn.ParameterDict({name: nn.Parameter(value) for name, value in weights.items()})
        self.drop, self.drop_head = nn.Dropout(0.1), nn.Dropout(0.2)

    def _of(self, name: str) -> Any:
        return self.weights[name.replace(".", "_")]

    def _linear(self, values: Any, name: str) -> Any:
        return functional.linear(values, self._of(f"{name}.w"), self._of(f"{name}.b"))

    def _norm(self, values: Any, name: str) -> Any:
        return functional.layer_norm(values, values.shape[-1:], self._of(f"{name}.w"), self._of(f"{name}.b"), 1e-12)

    def below(self, pieces: Any, there: Any) -> Any:
        """What the part that is not tuned makes of pieces; `there` is 1 where a message has one."""
        values = functional.embedding(pieces, self._of("words")) + self._of("places")[: pieces.shape[1]]
        return self._layers(self._norm(values, "norm"), there, range(self.kept))

    def forward(self, values: Any, there: Any) -> Any:
        """Sums for the kinds, from what `below` made."""
        values = self._layers(values, there, range(self.kept, self.depth))
        mean = (values * there[..., None]).sum(1) / there.sum(1, keepdim=True)
        return self._linear(self.drop_head(mean), "head")

    def _layers(self, values: Any, there: Any, layers: Iterable[int]) -> Any:
        rows, length, width = values.shape
        hidden = ((1 - there) * -1e4)[:, None, None, :]
        for layer in layers:
            parts = self._linear(values, f"{layer}.qkv").view(rows, length, 3, self.heads, width // self.heads)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=hidden)
            seen = self._linear(seen.transpose(1, 2).reshape(rows, length, width), f"{layer}.out")
            values = self._norm(values + self.drop(seen), f"{layer}.norm1")
            inner = functional.gelu(self._linear(values, f"{layer}.up"), approximate="tanh")
            values = self._norm(values + self.drop(self._linear(inner, f"{layer}.down")), f"{layer}.norm2")
        return values

    def rate(self, name: str) -> float:
        """How fast a weight learns; what is kept does not."""
        if name.startswith("head"):
            return HEAD_RATE
        layer = int(name.split("_")[0]) if name[0].isdigit() else -1
        return 0.0 if layer < self.kept else float(RATE * SLOWER ** (self.depth - 1 - layer))


class Given:
    """The examples of a language, and what the kept part of the network makes of them, on a device."""

    def __init__(self, stored: dict[str, Any], network: Network, device: str) -> None:
        self.kinds, self.writers, self.starts = stored["kinds"], stored["writers"], stored["starts"]
        self.lengths, self.device = np.diff(self.starts), device
        self.values = torch.zeros((int(self.starts[-1]), int(stored["start words"].shape[1])), device=device)
        pieces = torch.tensor(stored["pieces"].astype(np.int64), device=device)
        network.eval()
        with torch.no_grad():
            for rows in self.batches(np.arange(len(self.kinds))):
                there, spots = self.there(rows)
                made = network.below(pieces[spots] * there.long(), there)
                self.values[spots[there > 0]] = made[there > 0]

    def batches(self, places: Any, chance: Any = None) -> Iterator[Any]:
        """Places of examples of like length together, in a random order where `chance` is given."""
        order = np.asarray(places) if chance is None else chance.permutation(places)
        many = len(order) if chance is None else BATCH * 20
        made = []
        for at in range(0, len(order), many):
            part = order[at : at + many]
            part = part[np.argsort(self.lengths[part], kind="stable")]
            made += [part[first : first + BATCH] for first in range(0, len(part), BATCH)]
        yield from made if chance is None else (made[place] for place in chance.permutation(len(made)))

    def there(self, rows: Any) -> tuple[Any, Any]:
        """Where the examples at some places have a piece, and which of all pieces that is."""
        steps = np.arange(int(self.lengths[rows].max()))[None]
        there = steps < self.lengths[rows][:, None]
        spots = np.where(there, self.starts[rows][:, None] + steps, 0)
        return torch.tensor(there, device=self.device).float(), torch.tensor(spots, device=self.device)


def tune(given: Given, network: Network, every: Any, heard: Any, seed: int) -> Iterator[int]:
    """Tunes a network on the examples at `every`, without those at `heard` but in the last round; stops after every
    round."""
    torch.manual_seed(seed)
    learn = np.setdiff1d(every, heard)
    steps = ROUNDS * math.ceil(len(learn) / BATCH) + math.ceil(len(every) / BATCH) + ROUNDS
    teacher = Teacher(given, network, steps, seed)
    for turn in range(ROUNDS + 1):
        teacher.round(learn if turn < ROUNDS else every)
        yield turn


def read_once(given: Given, network: Network, places: Any, seed: int) -> None:
    """One round more over the examples at some places."""
    torch.manual_seed(seed)
    Teacher(given, network, math.ceil(len(places) / BATCH) + 1, seed, FURTHER_RATE / RATE).round(places)


class Teacher:
    """What moves the weights: faster at first, slower towards the last of `steps`."""

    def __init__(self, given: Given, network: Network, steps: int, seed: int, share: float = 1.0) -> None:
        self.given, self.network, self.chance = given, network, np.random.default_rng(seed)
        self.kinds = torch.tensor(given.kinds, device=given.device)
        self.tuned = {name: weight for name, weight in network.weights.items() if network.rate(name)}
        groups = [{"params": [weight], "lr": share * network.rate(name)} for name, weight in self.tuned.items()]
        self.optimizer = torch.optim.AdamW(groups, weight_decay=DECAY)
        warm = steps // 10
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min((step + 1) / max(warm, 1), max(0.0, (steps - step) / (steps - warm)))
        )

    def round(self, places: Any) -> None:
        """Show every example at some places once."""
        given = self.given
        self.network.train()
        for rows in given.batches(places, self.chance):
            there, spots = given.there(rows)
            shown = (torch.rand(there.shape, device=given.device) >= HIDDEN_WORDS).float()
            shown[:, 0] = 1.0
            sums, right = self.network(given.values[spots], there * shown), self.kinds[rows]
            risky = (right > 0).float() * (1 - SMOOTH) + SMOOTH / 2
            loss = KIND_SHARE * functional.cross_entropy(sums, right, label_smoothing=SMOOTH)
            loss = loss + functional.binary_cross_entropy_with_logits(risk(sums), risky)
            self.optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(list(self.tuned.values()), 1.0)
            self.optimizer.step()
            self.schedule.step()
        self.network.eval()


def risk(sums: Any) -> Any:
    """What the risky kinds together have over "none", which is the first."""
    return sums[:, 1:].logsumexp(1) - sums[:, 0]


def hear(network: Network, given: Given, places: Any) -> Any:
    """Sums for the kinds of the examples at some places."""
    found = np.zeros((len(given.kinds), len(network.weights["head_b"])), dtype=np.float32)
    with torch.no_grad():
        for rows in given.batches(places):
            there, spots = given.there(rows)
            found[rows] = network(given.values[spots], there).cpu().numpy()
    return found[places]


def in_steps(weights: Any, steps: int = STEPS) -> tuple[Any, Any]:
    """Whole numbers from -steps to steps, and a scale a row."""
    scales = np.abs(weights).max(axis=1, keepdims=True) / steps
    scales[scales == 0] = 1
    return np.round(weights / scales).astype(np.int8), scales.astype(np.float32)


def run(folder: Path, language: str, away: str, later: str = "", seed: int = 0) -> None:
    """Tune and write, as the head of this file says."""
    told, device = _told(folder, language)
    torch.manual_seed(seed)
    start = {name[6:]: value for name, value in told.items() if name.startswith("start ")}
    network = Network(start, int(told["heads"]), int(told["kinds"].max()) + 1).to(device)
    given = Given(told, network, device)
    unread = np.flatnonzero(np.isin(given.writers, away.split(",")))
    every = np.flatnonzero(~np.isin(given.writers, later.split(",")))
    for turn in tune(given, network, every, unread, seed):
        print(f"{language}: round {turn + 1} of {ROUNDS + 1}", flush=True)
        if turn < ROUNDS:
            np.savez(folder / f"{language}.first.npz", rows=unread, heard=hear(network, given, unread))
    _keep(folder / f"{language}.tuned.npz", told, network)


def further(folder: Path, language: str, later: str, seed: int = 0) -> None:
    """Let the tuned network read the later writers, and hear each half of them by one that has not."""
    told, device = _told(folder, language)
    with np.load(folder / f"{language}.tuned.npz") as stored:
        start = {
            name: stored[name] * stored[f"{name}#"] if f"{name}#" in stored else stored[name]
            for name in stored.files
            if name not in ("vocabulary", "heads") and not name.endswith("#")
        }
    writers = later.split(",")
    rows: list[Any] = []
    heard: list[Any] = []
    for without in (writers[::2], writers[1::2], []):
        torch.manual_seed(seed)
        network = Network(start, int(told["heads"]), len(start["head_b"])).to(device)
        given = Given(told, network, device)
        new = np.flatnonzero(np.isin(given.writers, [one for one in writers if one not in without]))
        old = np.flatnonzero(~np.isin(given.writers, writers))
        some = np.random.default_rng(seed).choice(old, min(len(old), EARLIER * len(new)), replace=False)
        read_once(given, network, np.concatenate([new, some]), seed)
        if without:
            rows.append(np.flatnonzero(np.isin(given.writers, without)))
            heard.append(hear(network, given, rows[-1]))
            print(f"{language}: {', '.join(without)} heard", flush=True)
        else:
            _keep(folder / f"{language}.further.npz", told, network)
    order = np.argsort(np.concatenate(rows))
    np.savez(folder / f"{language}.heard.npz", rows=np.concatenate(rows)[order], heard=np.concatenate(heard)[order])


def _told(folder: Path, language: str) -> tuple[dict[str, Any], str]:
    with np.load(folder / f"{language}.npz") as stored:
        return {name: stored[name] for name in stored.files}, "cuda" if torch.cuda.is_available() else "cpu"


def _keep(path: Path, told: dict[str, Any], network: Network) -> None:
    """The network as `reader` takes it: whole numbers with scales."""
    arrays: dict[str, Any] = {"vocabulary": told["vocabulary"], "heads": told["heads"]}
    for name, value in network.weights.items():
        weights = value.detach().cpu().numpy()
        if weights.ndim == 2 and len(weights) > 100:
            arrays[name], arrays[f"{name}#"] = in_steps(weights, WORD_STEPS if name == "words" else STEPS)
        else:
            arrays[name] = weights.astype(np.float32)
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4])
    further(Path(sys.argv[1]), sys.argv[2], sys.argv[4])
