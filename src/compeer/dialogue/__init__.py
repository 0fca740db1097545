"""The one record for every corpus: what was said, by whom, and what people noted about it.

record      Dialogue and Utterance, validated
rounds      merged turns, rounds with their history; messages() for chat models, trim() for their limits
jsonl       streaming JSON lines, plain or compressed, with errors that name file, line and record
"""

from compeer.dialogue.jsonl import RecordError, lock, read, read_rows, write_json, write_rows
from compeer.dialogue.record import Dialogue, Speaker, Steps, Utterance
from compeer.dialogue.rounds import Round, Spoken, Turn, messages, rounds, trim, turns, within_words

__all__ = [
    "Dialogue",
    "RecordError",
    "Round",
    "Speaker",
    "Spoken",
    "Steps",
    "Turn",
    "Utterance",
    "lock",
    "messages",
    "read",
    "read_rows",
    "rounds",
    "trim",
    "turns",
    "within_words",
    "write_json",
    "write_rows",
]
