"""What an import can come to, besides a dialogue: a record turned away, or a corpus that cannot be read.

A record that cannot be used is yielded as `Rejected`, in its place in the stream, with the reason; it never
ends the import and it is never dropped in silence. Only what makes the whole corpus unreadable (no such file,
a csv without its columns, a damaged archive) raises `CorpusError`.
"""

from __future__ import annotations

import msgspec

from compeer.errors import UserError


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A record that was not imported: where it stands and why."""

    source: str  # the corpus
    file: str  # the file, or the name on the hub
    record: str  # the id the dialogue would have had, or its index where not even that could be read
    line: int  # 1-based line of the file where the record starts; on the hub the row, from 1
    reason: str


class CorpusError(UserError):
    """A corpus that cannot be read: what is wrong, where, and what to do."""

    def __init__(self, where: object, what: str, todo: str) -> None:
        self.where, self.what, self.todo = str(where), what, todo
        super().__init__(f"{where}: {what}. {todo}")
