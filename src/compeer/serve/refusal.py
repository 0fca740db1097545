"""An answer other than a completion, in the words and the form that OpenAI's clients understand.

    {"error": {"message": …, "type": …, "param": …, "code": …}}

Clients raise an exception of their own for each status; a stream that has begun carries the same object as its last
event.
"""

from __future__ import annotations

from typing import Any

from compeer.errors import UserError

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
}


class Refused(UserError):
    """Why there is no completion, with the status that says so."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None, retry: int | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code, self.retry = status, param, code, retry

    def as_dict(self) -> dict[str, Any]:
        kind = TYPES.get(self.status, "server_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


def bad(message: str, param: str | None = None, code: str | None = None) -> Refused:
    """A request that cannot be answered as it is."""
    return Refused(400, message, param=param, code=code)
