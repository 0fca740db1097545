"""UnifiReward: one judge for the reasoning and the reply.

case             what is judged: histories, steps, replies; grouping and shortening
conversation     the four turns, and the baselines' one; quoting of text under judgement
verdict          what a judge answers, read from text or from token probabilities
scoring          verdicts to a number from -5 to 5
judge            what every judge does and returns; kinds of failure; its identity by hash
spec             opening a judge by name; PRM and ORM as one judge
local_judge      a transformers model in this process
local_scoring    groups of cases through a local model, each token encoded once
prefix_cache     the key-value cache behind it
chat_judge       any chat model: an endpoint, or the embedded model
service          the judge over HTTP
remote_judge     a judge behind such a service; what the two exchange
client           the judge within a time budget, for training; the check before a training starts
background_loop  an event loop in its own thread
train            training rows from CER items, and the training
score_file       scoring a file of items
evaluation       Table 1 with intervals, baselines, failure signatures
consistency      Figure 5a: do verdicts contradict each other?
timing           Figure 5b: seconds per judgement
attack           outputs that must not move a judge
"""

from compeer.reward.scoring import total

__all__ = ["total"]
