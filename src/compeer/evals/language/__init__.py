"""Language: how varied, how long, how repetitive replies are, and how near to what people said.

    outputs  what is measured: replies with their history, from a run, items, dialogues or a plain file
    metrics  BLEU, self-BLEU, ROUGE-L, repetition, distinct-n, likeness across dialogues
    measure  all of it for one set of replies as a Result, and stated strategies against people's

Words are Latin words and single Chinese characters (`compeer.reasoning.ontology.words`), except in BLEU. Figures are
given per language. Intervals resample dialogues, because replies of one dialogue are alike.
"""
