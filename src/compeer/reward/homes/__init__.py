"""Where a judge lives, and how it reads a case there.

local      a transformers model in this process, scored without generating
asked      any chat model: an endpoint, the embedded one
separate   PRM and ORM as one judge

Under `local`: `docket` (a case on its way), `walk` and `branches` (each token encoded once), `rendering` (the chat
template's tokens), `trie` (where answers part), `fit` (too long). Under `asked`: `weigh`. Both: `identity`.
"""
