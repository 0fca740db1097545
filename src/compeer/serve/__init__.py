"""A conversation partner over HTTP, as every OpenAI client speaks it.

run          listen, load, stop
application  the endpoints
settings     everything that can be chosen
access       keys, origins, addresses
admission    who is answered, who waits, who comes again later
wire         a request as clients send it
asked        the turn it asks for
pictures     data URLs, in memory
turn         the model's text, read and told as it comes
plain        no markup, stop strings
care         screening, helplines, and a reply where the model has none
telling      an answer in OpenAI's form, whole or streamed
refusal      errors in OpenAI's form
meter        Prometheus
"""
