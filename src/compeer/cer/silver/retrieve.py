"""Another supporter's real reply to a similar moment.

Similar: the seeker's last message alike, what was told lately alike, the reply about things this seeker speaks of
too. Against it: words in the reply that are neither common nor this seeker's; they belong to someone else's life.
Plain word statistics, no model. Far down the list such replies are merely vague, so only those above `CLOSE`
count as good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from compeer.cer.silver.evidence import occasions
from compeer.cer.silver.moment import Moment, size

Flags = npt.NDArray[np.bool_]

CLOSE = 0.22
_LAST_ALIKE = 0.25  # the message that is answered must itself be alike, whatever else is
_FEWEST_WORDS = {"en": 5, "zh": 6}
_MOST_USES = 3  # a reply that fits everywhere must not become everybody's
_CHUNK = 512


class Found(msgspec.Struct, frozen=True):
    moment: Moment
    score: float


class Index:
    """The replies of helpful moments in one language."""

    def __init__(self, moments: Sequence[Moment]) -> None:
        from scipy.sparse import diags
        from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

        self.moments = [m for m in moments if m.helpful and size(m.reply, m.language) >= _FEWEST_WORDS[m.language]]
        self.uses: Counter[str] = Counter()
        if not self.moments:
            return
        analyzer = "word" if self.moments[0].language == "en" else "char"
        self._last = TfidfVectorizer(min_df=2, sublinear_tf=True, ngram_range=(1, 2), analyzer=analyzer)
        self._recent = TfidfVectorizer(min_df=1, max_df=0.3, sublinear_tf=True, analyzer=analyzer)
        self._words = CountVectorizer(binary=True, analyzer=analyzer)
        replies = [m.reply for m in self.moments]
        counts = self._words.fit_transform(replies)
        # only words in fewer than two of a hundred replies can be foreign
        weight = np.clip(np.log(len(replies) / np.asarray(counts.sum(axis=0)).ravel()) - 4, 0, None)
        self._special = (counts @ diags(weight)).tocsr()
        self._special_total = np.asarray(self._special.sum(axis=1)).ravel()
        self._lasts = self._last.fit_transform([m.last for m in self.moments])
        self._recents = self._recent.fit_transform([recent(m) for m in self.moments])
        self._replies = self._recent.transform(replies)
        self._strategy = np.array([m.strategy for m in self.moments])
        self._problem = np.array([m.dialogue.problem or "" for m in self.moments])
        self._thanks = _thanks(self.moments)
        self._dialogue = np.array([m.dialogue.id for m in self.moments])

    def best(self, queries: Sequence[Moment], strategies: Sequence[str]) -> list[Found | None]:
        """For each moment the best reply with the wanted strategy from another dialogue."""
        found: list[Found | None] = [None] * len(queries)
        if not self.moments:
            return found
        for strategy in dict.fromkeys(strategies):
            rows = [at for at, wanted in enumerate(strategies) if wanted == strategy]
            columns = np.flatnonzero(self._strategy == strategy)
            for start in range(0, len(rows) if len(columns) else 0, _CHUNK):
                part = rows[start : start + _CHUNK]
                scores = self._scores([queries[at] for at in part], columns)
                for row, at in enumerate(part):
                    found[at] = self._take(scores[row], columns)
        return found

    def _scores(self, queries: Sequence[Moment], columns: np.ndarray) -> np.ndarray:
        lasts = self._last.transform([m.last for m in queries])
        recents = self._recent.transform([recent(m) for m in queries])
        known = self._words.transform([recent(m) for m in queries])
        alike = (lasts @ self._lasts[columns].T).toarray()
        score = 0.6 * alike + 0.3 * (recents @ self._recents[columns].T).toarray()
        score += 0.4 * (recents @ self._replies[columns].T).toarray()
        score -= 0.06 * (self._special_total[columns][None, :] - (known @ self._special[columns].T).toarray())
        problems = np.array([m.dialogue.problem or "" for m in queries])
        score += 0.05 * (problems[:, None] == self._problem[columns][None, :])
        score -= 0.3 * (alike < _LAST_ALIKE)
        score -= 0.3 * (_thanks(queries)[:, None] != self._thanks[columns][None, :])  # goodbyes go with goodbyes
        own = np.array([m.dialogue.id for m in queries])
        score[own[:, None] == self._dialogue[columns][None, :]] = -np.inf
        return np.asarray(score)

    def _take(self, scores: np.ndarray, columns: np.ndarray) -> Found | None:
        for column in np.argsort(-scores)[:60]:
            reply = self.moments[columns[column]]
            if np.isfinite(scores[column]) and self.uses[reply.key] < _MOST_USES:
                self.uses[reply.key] += 1
                return Found(reply, float(scores[column]))
        return None


def _thanks(moments: Sequence[Moment]) -> Flags:
    return np.array(["thanks" in occasions(m) for m in moments], dtype=bool)


def recent(moment: Moment) -> str:
    """What the seeker told lately."""
    return "\n".join(moment.seeker[-3:])
