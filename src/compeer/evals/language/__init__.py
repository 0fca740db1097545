"""How a supporter writes: varied or always the same, long or short, near to what people said.

outputs      what is measured: replies with their history, from a run, items, dialogues or a plain file
bleu         BLEU for a corpus, self-BLEU in linear time
rouge        ROUGE-L
variety      distinct-n and likeness across dialogues, with intervals that suit them
repetition   what a reply says again that stood in the history
strategies   which strategies are stated, against those of people
measure      all of it for one set of outputs: a Result
table        the Result for a reader

Words are Latin words and single Chinese characters throughout (`compeer.reasoning.ontology.words`); every figure is
given for each language apart. Intervals resample dialogues, because replies of one dialogue are alike.
"""
