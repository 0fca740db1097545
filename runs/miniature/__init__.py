"""The whole paper in miniature: from corpora to tables, in pieces that fit a short session on one GPU.

    python -m runs.miniature                     every stage that is not finished, one piece after another
    python -m runs.miniature sft judges          only these stages
    python -m runs.miniature --tiny              the same at a tiny size, on a CPU, without any data

settings     config.yaml as a typed object; `tiny` is a part of the same file
pieces       a piece of work, the note it leaves, and the runner that repeats nothing
plan         all pieces, in order, with what each of them needs
data         silver items from ESConv, our own turns, moments to answer
training     SFT, judges, GRPO: the package's trainers with the numbers of config.yaml
measuring    Table 1; what the policies write; what the evaluation judge makes of it
studies      time, consistency, tau, other corpora, the gold set
adapters     the best supporter and the judge, small enough to be shipped
tables       results/*.json into docs/results.md, between markers

Nothing here trains or measures by itself: it calls the package. README.md says how it is run.
"""
