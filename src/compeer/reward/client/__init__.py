"""What training uses: a judge within a budget of time, that never raises and says what it could not judge.

client      JudgeClient
step        one step: pieces, retries, giving up
rehearsal   the check before a training starts
trial       the cases it is checked with
background  an event loop in a thread of its own
"""
