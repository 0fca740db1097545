"""GRPO over whole conversations with a simulated seeker.

emotion       how a seeker's mood moves (SAGE, RLVER), in plain arithmetic
seeker        a model that plays the seeker
conversation  the record of a talk
multi_turn    rollouts of talks, the seeker's tokens masked
reward        the judge, the mood, or both
"""
