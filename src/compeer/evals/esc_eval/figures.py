"""ESC-Eval's numbers: seven columns and their plain mean, times 25; by language, by judge, and pooled.

The columns without a word in front are over all cards and all judges, every judge counting the same. `en/Fluency` is
one language, `openai:gpt-4o/Fluency` one judge, `openai:gpt-4o/en/Fluency` both. A rating without a number is left out
(by the official rule it is -1 and stays in). The average is the mean of the seven columns; its interval resamples
cards.
"""

from __future__ import annotations

from collections.abc import Sequence

from compeer.evals.esc_eval.dimension import AVERAGE, DIMENSIONS, SCALE
from compeer.evals.interval import Figure, mean_figure
from compeer.evals.result import Transcript

Row = dict[str, float | None]  # by dimension


def figures(transcripts: Sequence[Transcript], judges: Sequence[str]) -> tuple[Figure, ...]:
    """Pooled first, then each language where there are two, each judge where there are several, each of both."""
    found = list(columns([averaged(one, judges) for one in transcripts]))
    languages = sorted({one.language for one in transcripts})
    parts: dict[str, Sequence[Transcript]] = {
        f"{language}/": [one for one in transcripts if one.language == language] for language in languages
    }
    if len(languages) > 1:
        for prefix, part in parts.items():
            found += columns([averaged(one, judges) for one in part], prefix)
    if len(judges) > 1:
        for judge in judges:
            for prefix, part in {"": transcripts, **(parts if len(parts) > 1 else {})}.items():
                found += columns([averaged(one, [judge]) for one in part], f"{judge}/{prefix}")
    return tuple(found)


def columns(rows: Sequence[Row], prefix: str = "") -> tuple[Figure, ...]:
    """Seven columns of some cards and their mean. A column without any number is not there, nor is the mean then."""
    given = {key: [score for row in rows if (score := row[key]) is not None] for key in DIMENSIONS}
    seven = [mean_figure(prefix + DIMENSIONS[key], scores, scale=SCALE) for key, scores in given.items() if scores]
    if len(seven) < len(DIMENSIONS):
        return tuple(seven)
    complete = [[score for score in row.values() if score is not None] for row in rows if None not in row.values()]
    spread = mean_figure(AVERAGE, [sum(scores) / len(scores) for scores in complete], scale=SCALE)
    average = sum(figure.value for figure in seven) / len(seven)
    return (*seven, Figure(prefix + AVERAGE, average, spread.low, spread.high, len(rows)))


def averaged(transcript: Transcript, judges: Sequence[str]) -> Row:
    """A card's seven scores, each the mean over the judges that gave a number."""
    row: Row = {}
    for key in DIMENSIONS:
        given = [score for judge in judges if (score := transcript.scores.get(f"{judge}/{key}")) is not None]
        row[key] = sum(given) / len(given) if given else None
    return row
