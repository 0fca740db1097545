"""The collapse demonstration: what GRPO does to the variety of replies, with and without equation 5.

    python -m benchmarks.collapse                    five seeds, three arms; twelve minutes on one core
    python -m benchmarks.collapse --seeds 2 --arms none,paper

A tiny model (`world`) is taught by SFT to answer in the contract, in some two hundred ways. A judge (`judge`) likes one
of them best. Then GRPO, `compeer.policy.grpo.run` itself, in arms that differ in nothing but the reweighting. The runs
lie in runs/out/collapse; started again, finished ones are taken as they are and a broken one goes on.

world     eight moments, the ways to answer them, the tiny model and its tokenizer
judge     the rule, and its process
report    numbers over the seeds, the table and the picture
"""
