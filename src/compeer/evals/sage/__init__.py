"""SAGE: a simulated seeker whose mood rises and falls with what the supporter says.

profile     the hundred people and their opening words
machine     how the mood moves and when a dialogue ends, for SAGE and RLVER
dialogue    one dialogue: plan, reply, answer
figures     Sentient, Success, Failure
replay      the same arithmetic over a released log, checked value by value
"""
