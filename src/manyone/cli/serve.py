"""``manyone serve``: a model behind HTTP.

In a shell::

  manyone serve fleet.manyone                              on 127.0.0.1, port 8000
  manyone serve fleet.manyone --state fleet.state          with incidents of watch
  curl --data-binary @today.csv -H 'Content-Type: text/csv' http://127.0.0.1:8000/score
  curl http://127.0.0.1:8000/health

POST /score takes rows as JSON (a list of objects) or CSV, and answers with a score, a
p-value and an alarm for each. GET /incidents, /health and /metrics (for Prometheus)
take nothing. There is no password: whoever reaches the port can ask. It listens on this
machine only, unless --host says otherwise.
"""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from manyone.cli.common import InputError
from manyone.cli.models import Model, load_model
from manyone.serve import make_app
from manyone.watch.store import read_store


def serve(
    model: Model,
    state: Annotated[
        Path | None, typer.Option(help="Store of manyone watch, for /incidents.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0: any free one.", min=0, max=65535)
    ] = 8000,
) -> None:
    """Score rows over HTTP."""
    fitted = load_model(model)
    if state is not None:
        with read_store(state):
            pass  # refuse a bad store now, not at the first request
    with _listening(host, port) as listener:
        app = make_app(fitted, model.name, state)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=30,  # seconds for requests that still run
        )
        place = f"[{host}]" if ":" in host else host
        typer.echo(f"Serving {model} at http://{place}:{listener.getsockname()[1]}")
        typer.echo("POST /score; GET /incidents, /health, /metrics. Ctrl-C stops it.")
        uvicorn.Server(config).run(sockets=[listener])


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens, or one line about why that is impossible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        why = str(error.strerror or error).partition(" (")[0].lower()
        other = "another port, as --port 0"
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            other = "an address of this machine, as --host 127.0.0.1"
        raise InputError(
            f"--host {host} --port {port}: cannot listen there ({why}). Name {other}."
        ) from None
