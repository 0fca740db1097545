"""Training the judge (equation 4): `rows` from CER items, `reasons` behind verdicts, `train`."""
