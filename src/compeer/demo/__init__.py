"""`compeer demo`: the whole paper in miniature, on two cores, in about ten minutes.

folder   the folder of a demo: sizes, settings, notes per stage, the runner
steps    the stages that work: data, judge, cold start, GRPO, measurement
story    the six stages in order, the report, and what to do next
turn     `--quick`: one turn of a conversation, and nothing else

It trains the small model (`embedded:small`). At a terminal it ends in a conversation with the 1.5B supporter.
The numbers are so small that they prove one thing only: that every part runs here.
"""
