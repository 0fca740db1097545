"""`compeer demo`: the whole paper in miniature, on a processor with two cores, in about ten minutes.

sizes       how much of everything, and why so little
folder      where it all lies: the settings, a note for each finished stage, one demo at a time
stages      a stage, the runner that repeats nothing, the table at the end
story       the six stages in order, with the sentence each one says
data        the bundled corpus: sampled by equation 1, labelled silver, parted
training    the judge, the cold start, GRPO
measuring   before against after: reward, language, control
ending      the report, and an invitation
needs       what must be installed
turn        `--quick`: one turn of a conversation, and nothing else

Nothing here trains or measures by itself. Every stage calls what the commands call (`compeer cer build`, `cer reason`,
`reward train`, `reward score`, `policy sft`, `policy grpo`, `eval diversity`, `eval control`, `eval report`), with
numbers so small that they prove one thing only: that all of it runs here.
"""
