"""Making open CER: the plan of its moments, the form its authors write in, its rounds of candidates and votes."""
