"""COMPEER: controllable empathetic reasoning for emotional support conversation.

In import order; a part imports what stands above it (docs/design.md):

errors        the error that is meant for people
typed         JSON and plain values into types
config        settings: a YAML file, overrides, a typed object
statistics    intervals, agreement, classification figures, ranking
plotting      colours and saving of figures
reasoning     the contract: three steps and a reply, parsed, rendered, enforced
dialogue      one record for every corpus
models        one way to ask a language model, three homes
pipeline      resumable stages over files
http_service  what every HTTP service shares
safety        reading danger, what a person in danger is told, what a model may say
corpora       importers, and our own corpora
cer           the labelled reasoning dataset
training      what judge and policy training share
reward        the judge
policy        the reward as one callable, SFT, GRPO
people        labelling and arena
evals         ESC-Eval, SAGE, VERA-MH, language, control, safety, the report
conversation  one turn engine; terminal and server
studio        the web app
demo          the whole story at a tiny size
cli           the commands
"""

__version__ = "0.1.0"
