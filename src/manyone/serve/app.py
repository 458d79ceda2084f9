"""The service: POST /score, GET /incidents, /health and /metrics."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Annotated, Literal

import polars as pl
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException

from manyone import __version__
from manyone.alerts.metrics import Metric, prometheus_text
from manyone.serve.body import MOST_BYTES, RequestError, rows_of_body
from manyone.tables import TableModel
from manyone.tables.frames import as_table
from manyone.tables.past import TablePast
from manyone.watch.database import StoreError
from manyone.watch.incidents import incidents_of
from manyone.watch.store import read_store

_PROMETHEUS = "text/plain; version=0.0.4"
_NO_STATE = "There is no store: start manyone serve with --state, as watch has it."
# What this process counts.
_COUNTED = {
    "requests_total": "Requests to score.",
    "requests_refused_total": "Of these, refused.",
    "rows_scored_total": "Rows scored by requests.",
    "rows_alarmed_total": "Of these, alarms.",
    "score_seconds_total": "Seconds of scoring.",
}


class _Service:
    """A model and the store of its ``manyone watch``, which requests use."""

    def __init__(self, model: TableModel, name: str, state: Path | None) -> None:
        self._counts: Counter[str] = Counter()
        self._model = model
        self._name = name
        self._state = state
        self._lock = Lock()

    def score(
        self, body: bytes, content_type: str, explain: int, unknown: str
    ) -> pl.DataFrame:
        """Score the rows of a body."""
        begin = time.perf_counter()
        try:
            rows = rows_of_body(self._model, body, content_type)
            frame = as_table(rows)
            read, _ = self._model.read(frame, self._past())
            answers = self._model._answer(read, unknown=unknown)
            scores: pl.DataFrame = self._model._scores(
                read, answers, explain, frame.select([]), frame
            )
        except (RequestError, ValueError) as error:
            self._count(requests_refused_total=1)
            if isinstance(error, RequestError):
                raise
            raise RequestError(422, str(error)) from error
        self._count(
            rows_scored_total=len(scores),
            rows_alarmed_total=int(scores["alarm"].sum()),
            score_seconds_total=time.perf_counter() - begin,
        )
        return scores

    def _count(self, **counts: float) -> None:
        """Count a request, and further numbers about it."""
        with self._lock:
            self._counts.update({"requests_total": 1, **counts})

    def _past(self) -> TablePast | None:
        """Last rows of the store, as the past of the rows of a request, if needed."""
        if self._state is None or self._model.training_.past is None:
            return None
        if not self._state.exists():  # before the first rows that watch has seen
            return None
        with read_store(self._state) as store:
            return store.past(self._model)

    def incidents(self, most: int) -> list[dict[str, object]]:
        """Incidents of the store, the least likely by chance first."""
        if self._state is None:
            raise RequestError(404, _NO_STATE)
        with read_store(self._state) as store:
            return incidents_of(store, most=most)

    def health(self) -> dict[str, object]:
        """State of the service, and facts about its model."""
        return {
            "status": "ok",
            "manyone": __version__,
            "model": self._name,
            "tasks": len(self._model.tasks_),
            "alarm_rate": self._model.promised_rate_,
        }

    def metrics(self) -> str:
        """Counts of this process, and of the store."""
        with self._lock:
            metrics = [
                Metric(name, meaning, self._counts[name])
                for name, meaning in _COUNTED.items()
            ]
        if self._state is not None:
            with read_store(self._state) as store:
                metrics += store.metrics()
        return prometheus_text(metrics)


def make_app(model: TableModel, name: str = "", state: Path | None = None) -> FastAPI:
    """The service as an ASGI application.

    Parameters
    ----------
    model : TableModel
    name : str
        What ``/health`` calls it.
    state : Path or None
        The store of ``manyone watch``; it is only read.
    """
    service = _Service(model, name, state)
    threads = ThreadPoolExecutor(os.cpu_count(), "manyone-score")
    app = FastAPI(title="manyone", version=__version__, docs_url=None, redoc_url=None)

    @app.post("/score")
    async def score(
        request: Request,
        explain: Annotated[int, Query(ge=0, le=20)] = 0,
        unknown: Literal["pooled", "error"] = "pooled",
    ) -> Response:
        """Score rows, which are JSON or CSV; the answer is JSON."""
        _refuse_other_options(request, ("explain", "unknown"))
        body = await _limited_body(request)
        content_type = request.headers.get("content-type", "")
        scores = await asyncio.get_running_loop().run_in_executor(
            threads, service.score, body, content_type, explain, unknown
        )
        return Response(scores.write_json(), media_type="application/json")

    @app.get("/incidents")
    def incidents(
        request: Request,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> JSONResponse:
        """Incidents of the store, the least likely by chance first."""
        _refuse_other_options(request, ("limit",))
        return JSONResponse(service.incidents(limit))

    @app.get("/health")
    def health() -> JSONResponse:
        """Whether the service is there, and what it serves."""
        return JSONResponse(service.health())

    @app.get("/metrics")
    def metrics() -> PlainTextResponse:
        """Counts, as Prometheus reads them."""
        return PlainTextResponse(service.metrics(), media_type=_PROMETHEUS)

    _answer_errors(app)
    return app


def _refuse_other_options(request: Request, options: Sequence[str]) -> None:
    """Refuse options that do not exist."""
    for name in request.query_params:
        if name not in options:
            raise RequestError(
                422,
                f"{name}: there is no such option. {request.url.path} takes "
                f"{' and '.join(options)}.",
            )


async def _limited_body(request: Request) -> bytes:
    """Read the body, unless it is too long."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise RequestError(
                413,
                f"The body is longer than {MOST_BYTES // 2**20} MiB. Send the rows in "
                "parts.",
            )
    return bytes(body)


def _answer_errors(app: FastAPI) -> None:
    """Answer every error by an object with one sentence."""

    def sentence(status: int, text: str) -> JSONResponse:
        return JSONResponse({"error": " ".join(text.split())}, status)

    @app.exception_handler(RequestError)
    def refused(request: Request, error: RequestError) -> JSONResponse:
        return sentence(error.status, str(error))

    @app.exception_handler(RequestValidationError)
    def bad_query(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        name = first["loc"][-1]
        return sentence(422, f"{name}={first['input']}: {first['msg']}.")

    @app.exception_handler(StoreError)
    def no_store(request: Request, error: StoreError) -> JSONResponse:
        return sentence(503, str(error))

    @app.exception_handler(HTTPException)
    def no_such_page(request: Request, error: HTTPException) -> JSONResponse:
        text = f"{request.method} {request.url.path}: {error.detail}."
        return sentence(
            error.status_code,
            f"{text} There are POST /score and GET /incidents, /health, /metrics.",
        )
