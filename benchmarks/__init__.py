"""Speed, as ratios to a peer or a ceiling measured in the same run.

    python -m benchmarks                        all of them, one after another; the same again goes on where it stopped
    python -m benchmarks judge grpo             only these (also --only judge grpo), measured anew
    python -m benchmarks --skip stage_runner    all but this one
    python -m benchmarks list                   what there is, what it compares, how long it takes
    python -m benchmarks table                  measure nothing; write the table of docs/performance.md again

catalogue   what there is: what is ours, what is theirs, which ratio is wanted
measure     a ratio, and a comparison that could not be made
machine     on which machine, at which revision
attempt     one benchmark in a process of its own, watched
one         that process
results     results.json: read, merged, written
table       results.json as tables of docs/performance.md

The other files are the benchmarks. Each has a function `run` that returns its ratios, and can be read by itself.
"""
