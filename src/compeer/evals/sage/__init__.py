"""SAGE (Zhang et al. 2025): a simulated seeker whose mood rises and falls with what the supporter says.

evaluate  profiles, the dialogue, the Inspect task, a whole run
mood      how the mood moves and when a dialogue ends, the figures, a released log checked value by value
"""
