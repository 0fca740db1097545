"""COMPEER: controllable empathetic reasoning for emotional support conversation.

reasoning   the contract: three steps and a reply, parsed, rendered, enforced
dialogue    one record for every corpus
models      one way to ask a language model, three homes
corpora     importers, and the small bilingual corpus that ships inside
cer         the labelled reasoning dataset
chat        a conversation, in memory
cli         the commands
"""

__version__ = "0.1.0"
