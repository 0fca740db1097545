"""Who may do what, and what is refused.

person      people, their roles, and how a personal link is checked
secret      the key that signs sessions, made once
session     the signed cookie, and the token that forms carry against forged requests
hosts       which names this server answers to, and which pages may send forms to it
buckets     rate limits
visit       what is known about the one who asks, for every page
gate        all of it around every request, in one place, so that no page can forget it
headers     what every answer tells the browser to forbid
journal     one line a request, never what was written in it
roles       what a page needs: a person, a role
pictures    sending a picture that belongs to an item, and nothing else
"""

from compeer.studio.access.people import Person, Refused, Role, Tokens, Visit, needs, person, visit

__all__ = ["Person", "Refused", "Role", "Tokens", "Visit", "needs", "person", "visit"]
