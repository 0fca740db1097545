"""Whether a supporter does as it is told, and whether its reply does what its reasoning says.

trials       what is pinned at which moment of a conversation
adherence    pins asked of a model, and how many were kept
classifier   from an utterance to its strategy, trained on a labelled corpus, with its own held-out accuracy
judging      the same question to a judge model, which does not see what was stated
agreement    stated strategy against the one that was read out of the reply
run, table   the whole as a Result, and for a reader
"""
