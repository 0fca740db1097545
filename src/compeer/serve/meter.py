"""What the server counts, as Prometheus reads it. Never a word of what was said."""

from __future__ import annotations

from compeer.models.meter import SECONDS, Counter, Gauge, Histogram, Metrics


class ServeMeter(Metrics):
    """Everything on the page /metrics."""

    def __init__(self) -> None:
        self.requests = Counter("compeer_serve_requests_total", "Requests, by path and status; gone: the client left.")
        self.in_flight = Gauge("compeer_serve_in_flight", "Completions under way, waiting ones included.")
        self.working = Gauge("compeer_serve_working", "Completions that have a place at the model.")
        self.waiting = Gauge("compeer_serve_queue", "Completions that wait for a place.")
        self.slots = Gauge("compeer_serve_slots_busy", "Slots of the embedded model that are decoding now.")
        self.tokens = Counter("compeer_serve_tokens_total", "Tokens, by kind: prompt, cached, completion.")
        self.cancelled = Counter("compeer_serve_cancelled_total", "Clients that left, by where: queue or model.")
        self.failures = Counter("compeer_serve_failures_total", "Turns in which the model failed, by kind.")
        self.incomplete = Counter("compeer_serve_incomplete_total", "Outputs that fell short of the contract.")
        self.safety = Counter("compeer_serve_safety_total", "Turns by level of risk.")
        self.first = Histogram("compeer_serve_first_token_seconds", "From a request to its first token.", SECONDS)
        self.seconds = Histogram("compeer_serve_seconds", "From a request to the end of its answer.", SECONDS)
