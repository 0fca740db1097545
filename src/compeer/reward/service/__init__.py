"""The judge over HTTP.

serve        listen, load, stop
application  the endpoints
queueing     requests that wait together are judged together
meter        Prometheus text
enclosures   pictures
wire         requests, replies, kinds of failure
http         the other side: a judge behind such a service
"""
