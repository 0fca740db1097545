"""Forms that were sent before: each page carries a random name, and what is done with it is done once.

The name is noted in the same transaction as what the form does, so a form either did its work or may be sent again,
and never works twice.
"""

from __future__ import annotations

import hashlib

from sqlalchemy import Connection, delete, insert, select

from compeer.annotation.people import Person, locked
from compeer.annotation.refusal import refuse
from compeer.annotation.store.database import Store
from compeer.annotation.store.tables import forms

_KEPT = 7 * 86400.0  # seconds; a page's forms must end sooner than this


def acting(store: Store, db: Connection, person: Person, form: str) -> Person:
    """The person as they are now, locked, and their form used: how everything that changes something begins."""
    me = locked(store, db, person)
    use(store, db, me, form)
    return me


def use(store: Store, db: Connection, person: Person, form: str) -> None:
    """Note that a form was used; refused when it was before. No name, no check: commands have no forms."""
    if not form:
        return
    name, now = hashlib.sha256(form.encode("utf-8", "replace")).hexdigest(), store.clock()
    if db.execute(select(forms.c.form).where(forms.c.form == name)).first() is not None:
        raise refuse(person, "form", "This was sent before and has been dealt with; nothing was changed this time.")
    db.execute(delete(forms).where(forms.c.at < now - _KEPT))
    db.execute(insert(forms).values(form=name, annotator=person.id, at=now))


def use_form(store: Store, person: Person, form: str) -> None:
    """The same for what a page does besides voting, such as a coordinator's invitations."""
    store.write(lambda db: use(store, db, person, form))
