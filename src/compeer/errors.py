"""The one kind of error that is meant for people: what went wrong, where, and what to do about it.

Every command catches it at the top and prints the message alone; anything else is a bug and keeps its
traceback.
"""


class UserError(Exception):
    """Something a person can mend. The message is one or a few complete sentences."""
