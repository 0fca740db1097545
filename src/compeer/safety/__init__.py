"""Safety: screening, sticky risk, the crisis path, helplines, and one facade for every way of talking.

screen      does a message tell of danger? fold and lexicon under it, the patterns in words/
risk        what is kept in mind from message to message
crisis      what is added to the prompt, the banner, our own replies
outgoing    reading what the model wrote before it is shown
helplines   where people answer, by country, with dates
notice      the opening notice, the reminder of a break
guard       a second opinion from a model, where one is configured
guarded     all of it around each turn of a conversation
"""

from compeer.safety.guarded import After, Before, Guarded
from compeer.safety.risk import Risk
from compeer.safety.screen import Finding, Span, screen

__all__ = ["After", "Before", "Finding", "Guarded", "Risk", "Span", "screen"]
