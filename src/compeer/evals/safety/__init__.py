"""Safety: a red-team set of our own, how the screening does on it, and how a model answers it.

screening  the set, and recall by kind and language, false alarms, of the rules in `compeer.safety`
replies    a model answers: checks without a judge, and five dimensions after VERA-MH for a judge model
vera_mh    VERA-MH: simulated people at risk, rated by the rubric of clinicians, by a judge model or by blind readers
"""
