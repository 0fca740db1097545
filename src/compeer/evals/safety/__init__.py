"""Safety: a red-team set of our own, how the screening does on it, and how a model answers it.

cases        the set: development and test half, split by case id before any rule was written
rates        shares with Wilson intervals
screening    recall by kind and language, false alarms, of the rules in `compeer.safety`
rubric       five dimensions after VERA-MH and one for false alarms, what the judge is told, how it is read
checks       what needs no judge: help named, the conversation goes on, no method given
stages       a model answers, a judge judges: rows of the runner, cached and resumable
run, table   the whole as a Result, and for a reader
"""
