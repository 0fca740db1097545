"""Who may do what, and what is refused.

people  people, personal links, sessions, what is known about a visitor, the roles a page needs
gate    everything that is checked around every request; headers, rate limits, the log
"""

from compeer.studio.access.people import LinkSource, RequestRefused, Role, StudioPerson, Visit, needs, person, visit

__all__ = ["LinkSource", "RequestRefused", "Role", "StudioPerson", "Visit", "needs", "person", "visit"]
