"""UnifiReward: one judge for the reasoning and the reply.

case          what is judged
quote         text under judgement as data
conversation  the four turns, and the baselines' one
verdict       what a judge says, read and written
judge         what every judge does and returns
scoring       verdicts to a number from -5 to 5
grouping      cases of one history belong together
spec          naming a judge on the command line

homes/        local, asked, separate          learning/     rows, reasons, training
service/      the judge over HTTP             evaluation/   Table 1
client/       the judge within a budget       studies/      Figure 5
scores/       a file of items, scored         attack/       what may not move a judge
"""

from compeer.reward.scoring import total

__all__ = ["total"]
