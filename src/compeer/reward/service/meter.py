"""What the judge's service counts, as Prometheus reads it."""

from __future__ import annotations

from compeer.models.meter import SECONDS, Counter, Gauge, Histogram, Metrics

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Meter(Metrics):
    """Everything on the page /metrics."""

    def __init__(self) -> None:
        self.requests = Counter("compeer_judge_requests_total", "Requests, by path and status.")
        self.cases = Counter("compeer_judge_cases_total", "Cases that were judged.")
        self.failures = Counter("compeer_judge_failures_total", "Cases without a judgement, by kind.")
        self.cancelled = Counter("compeer_judge_cancelled_total", "Requests that were given up before their answer.")
        self.taken = Counter("compeer_judge_taken_total", "Requests that were taken from the queue.")
        self.tokens = Counter("compeer_judge_tokens_total", "Tokens encoded.")
        self.waiting = Gauge("compeer_judge_queue_requests", "Requests that wait.")
        self.waiting_cases = Gauge("compeer_judge_queue_cases", "Cases that wait.")
        self.batches = Histogram("compeer_judge_batch_cases", "Cases that were judged together.", BATCHES)
        self.joined = Histogram("compeer_judge_batch_requests", "Requests that were judged together.", BATCHES)
        self.latency = Histogram("compeer_judge_seconds", "From a request to its judgements.", SECONDS)
        self.work = Histogram("compeer_judge_batch_seconds", "What the judge took for a batch.", SECONDS)
