"""A small HTTP service of one model: it predicts from releases, and loads neither the gate nor anything sensitive.

What it is sent is used for one answer. Nothing of it is kept, logged or repeated, not even in errors.
"""

import asyncio
import base64
import io
import json
import math
import threading
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from reticent import errors, schema
from reticent.encoders import Encoder
from reticent.encoders.images import FORMATS
from reticent.encoders.packages import require

if TYPE_CHECKING:
    from reticent.classifier import ContinualClassifier

EXTRA = "reticent[serve]"
LABELS_AT_ONCE = 10_000  # of GET /labels
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_KEYS = 'Expected a JSON object: {"inputs": [...]}, and "top": 3 or "proba": true if you want that.'


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one request may take.

    Args:
        body: Bytes of a request.
        rows: Inputs of a request.
        top: Labels for each input.
        seconds: To read a request, and again to answer it.
        waiting: Requests that may wait for an answer; more are refused at once.

    Example:
        >>> Limits(rows=10).rows
        10
    """

    body: int = 1 << 20
    rows: int = 1_000
    top: int = 100
    seconds: float = 30.0
    waiting: int = 32

    def __post_init__(self) -> None:
        for name in ("body", "rows", "top", "waiting"):
            errors.whole(name, getattr(self, name), at_least=1)
        errors.real("seconds", self.seconds, above=0, below=math.inf)


class _Refused(Exception):
    """Becomes an answer with this status and a sentence that repeats nothing of the request."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class _Asked(NamedTuple):
    """What a request asks for."""

    inputs: list[Any]
    top: int | None
    proba: bool


class _Service:
    """A model, and what is said of it, as it was when the service began."""

    def __init__(self, model: "ContinualClassifier", limits: Limits) -> None:
        if not model.releases:
            raise errors.InvalidValue("This model has learned nothing yet: learn a task before it is served.")
        encoder = model.encoder
        self._model, self._limits = model, limits
        # a text must never reach an encoder of images: it would open a file of that name
        self._pictures = isinstance(encoder, Encoder) and encoder.images and not encoder.reads_texts
        self._columns = schema.of(model.directory)
        self._labels = [_plain(label) for label in model.classes_.tolist()]
        self._tasks = sum(bool(release.parameters) for release in model.releases)
        self._private = all(release.private for release in model.releases)
        self._statement = _statement(model)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="predict")  # the libraries below have threads
        self._places = threading.BoundedSemaphore(limits.waiting)

    async def health(self, request: Any) -> dict[str, Any]:
        """Whether it answers, and what it is."""
        from reticent import __version__

        del request
        about = {"version": __version__, "tasks": self._tasks, "labels": len(self._labels), "private": self._private}
        return {"status": "ok", **about, **({} if self._columns is None else {"columns": self._columns})}

    async def labels(self, request: Any) -> dict[str, Any]:
        """All known labels, some at a time."""
        start = _number(request.query_params.get("start", "0"), most=len(self._labels))
        count = _number(request.query_params.get("count", str(LABELS_AT_ONCE)), most=LABELS_AT_ONCE)
        return {"total": len(self._labels), "start": start, "labels": self._labels[start : start + count]}

    async def statement(self, request: Any) -> dict[str, Any]:
        """The privacy statement."""
        del request
        if self._statement is None:
            raise _Refused(404, "This model was started without its ledger, or without what reads it.")
        return self._statement

    async def predict(self, request: Any) -> dict[str, Any]:
        """The best labels of each input."""
        if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            raise _Refused(415, "Expected content-type: application/json.")
        body = await asyncio.wait_for(self._body(request), self._limits.seconds)
        asked = self._asked(body)
        found = await asyncio.wait_for(asyncio.wrap_future(self._answer(asked)), self._limits.seconds)
        return found if asked.top is not None else {name: [row[0] for row in rows] for name, rows in found.items()}

    async def _body(self, request: Any) -> bytes:
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self._limits.body:
                raise _Refused(413, f"Expected at most {self._limits.body:,} bytes.")
            parts.append(part)
        return b"".join(parts)

    def _asked(self, body: bytes) -> _Asked:
        try:
            asked = json.loads(body)
        except (ValueError, RecursionError):
            raise _Refused(400, "Expected JSON in UTF-8.") from None
        if not isinstance(asked, dict) or not {"inputs"} <= set(asked) <= set(_Asked._fields):
            raise _Refused(400, _KEYS)
        inputs, top, proba = asked["inputs"], asked.get("top"), asked.get("proba", False)
        if not isinstance(inputs, list) or not isinstance(proba, bool):
            raise _Refused(400, _KEYS)
        if len(inputs) > self._limits.rows:
            raise _Refused(413, f"Expected at most {self._limits.rows:,} inputs in a request.")
        whole = isinstance(top, int) and not isinstance(top, bool)
        if top is not None and not (whole and 1 <= top <= self._limits.top):
            raise _Refused(422, f"Expected top to be a whole number from 1 to {self._limits.top}.")
        return _Asked(inputs, top, proba)

    def _answer(self, asked: _Asked) -> "Future[dict[str, list[list[Any]]]]":
        if not self._places.acquire(blocking=False):
            raise _Refused(503, "Too many requests are waiting. Try again later.")
        answer = self._worker.submit(partial(self._best, asked))
        answer.add_done_callback(lambda _: self._places.release())
        return answer

    def _best(self, asked: _Asked) -> dict[str, list[list[Any]]]:
        if not asked.inputs:
            return {"labels": [], **({"probabilities": []} if asked.proba else {})}
        examples = list(map(_picture, asked.inputs)) if self._pictures else self._in_order(asked.inputs)
        try:
            if not asked.proba:
                return {"labels": _plain_rows(self._model.predict_top_k(examples, asked.top or 1))}
            labels, chances = self._model.top_k_proba(examples, asked.top or 1)
        except errors.InvalidValue:
            kind = "rows of numbers, as many as the model has features"
            kind = kind if self._model.encoder is None else "what the model's encoder reads"
            raise _Refused(422, f"Expected inputs: a list of {kind}.") from None
        known = [[value if math.isfinite(value) else None for value in row] for row in chances.tolist()]
        return {"labels": _plain_rows(labels), "probabilities": known}

    def _in_order(self, inputs: list[Any]) -> list[Any]:
        """Rows with names of columns become rows in the order of the first task; other names are refused."""
        if self._columns is None or not all(isinstance(row, dict) for row in inputs):
            return inputs
        if any(set(row) != set(self._columns) for row in inputs):
            raise _Refused(422, "Expected the columns that GET /health names, all of them and no other.")
        return [[row[name] for name in self._columns] for row in inputs]


def app(model: "ContinualClassifier", *, limits: Limits | None = None) -> Any:
    """Returns the service as an ASGI application: POST /predict, GET /labels, /statement and /health.

    Guarantees:
      - It loads neither gate nor sensitive.              test_serving_loads_nothing_that_reads_private_data
      - No error repeats anything of a request.           test_errors_repeat_nothing_of_a_request
      - Requests beyond a limit are refused.              test_limits_are_kept
      - What cannot be scored is UNKNOWN, as elsewhere.   test_what_cannot_be_scored_is_unknown_over_http
      - A text never names a file for it.                 test_no_text_names_a_file_of_the_server

    Args:
        model: Loaded with `rt.load`; later tasks are served after a restart.
        limits: Of each request.
    """
    applications, routing, responses, exceptions = (
        require(f"starlette.{name}", extra=EXTRA, what="Serving")
        for name in ("applications", "routing", "responses", "exceptions")
    )
    service = _Service(model, Limits() if limits is None else limits)

    def answer(value: dict[str, Any], status: int = 200) -> Any:
        return responses.JSONResponse(value, status, headers=_HEADERS)

    def endpoint(handler: Callable[[Any], Awaitable[dict[str, Any]]]) -> Callable[[Any], Awaitable[Any]]:
        async def guarded(request: Any) -> Any:
            try:
                return answer(await handler(request))
            except _Refused as refused:
                return answer({"error": str(refused)}, refused.status)
            except TimeoutError:
                return answer({"error": "The answer took too long. Send fewer inputs."}, 503)
            except Exception:  # whatever it says may be about an input
                return answer({"error": "This request cannot be answered."}, 500)

        return guarded

    async def other(request: Any, error: Any) -> Any:
        del request
        sentence = {404: "Expected /predict, /labels, /statement or /health.", 405: "Expected POST /predict, or GET."}
        return answer({"error": sentence.get(error.status_code, "Refused.")}, error.status_code)

    routes = [
        routing.Route("/predict", endpoint(service.predict), methods=["POST"]),
        routing.Route("/labels", endpoint(service.labels), methods=["GET"]),
        routing.Route("/statement", endpoint(service.statement), methods=["GET"]),
        routing.Route("/health", endpoint(service.health), methods=["GET"]),
    ]
    return applications.Starlette(routes=routes, exception_handlers={exceptions.HTTPException: other})


def run(
    model: "ContinualClassifier",
    *,
    host: str,
    port: int,
    limits: Limits | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serves a model until it is interrupted. No request is logged.

    Args:
        model: Loaded with `rt.load`.
        host: The address to listen on.
        port: The port.
        limits: Of each request.
        ready: Called once everything is loaded, just before it listens.
    """
    uvicorn = require("uvicorn", extra=EXTRA, what="Serving")
    limits = Limits() if limits is None else limits
    settings: dict[str, Any] = {"access_log": False, "log_level": "error", "server_header": False}
    settings |= {"timeout_keep_alive": 5, "log_config": None}  # its own closes the handlers of whoever set up logging
    made = app(model, limits=limits)
    ready()
    try:
        uvicorn.run(made, host=host, port=port, limit_concurrency=4 * limits.waiting, **settings)
    except KeyboardInterrupt:
        return
    except SystemExit:  # uvicorn has said why
        raise errors.ReticentError(f"Cannot listen on {host}, port {port}. Choose another with --port.") from None


def _statement(model: "ContinualClassifier") -> dict[str, Any] | None:
    """None without a ledger, and where the packages are not installed that compute some costs."""
    try:
        return model.statement().json()
    except (errors.ReticentError, ImportError):
        return None


def _plain_rows(labels: Iterable[Iterable[object]]) -> list[list[Any]]:
    return [[_plain(label) for label in row] for row in labels]


def _plain(label: object) -> Any:
    """Returns a label as JSON has it; an infinite number as text."""
    if isinstance(label, tuple):
        return [_plain(part) for part in label]
    return str(label) if isinstance(label, float) and not math.isfinite(label) else label


def _number(text: str, *, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise _Refused(422, "Expected start and count to be whole numbers.")
    return min(int(text), most)


def _picture(text: object) -> Any:
    """Returns the image that base64 holds, or None: never what a text may name."""
    try:
        content = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
        return require("PIL.Image", extra="reticent[vision]").open(io.BytesIO(content), formats=FORMATS)
    except Exception:
        return None
