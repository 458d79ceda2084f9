"""Real data folders, and a small web server that behaves well or badly."""

import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def real() -> Callable[[str], Path]:
    """Folder with the given prepared file; skips the test where there is none."""

    def folder_of(file: str) -> Path:
        folders = [ROOT.parent / "shared" / "data"]
        if os.environ.get("MANYONE_DATA"):
            folders.insert(0, Path(os.environ["MANYONE_DATA"]))
        for folder in folders:
            if (folder / file).is_file():
                return folder
        pytest.skip(f"{file} is neither in $MANYONE_DATA nor in ../shared/data")

    return folder_of


class Web:
    """Files of the server by name; a name in `cut` is sent half way only."""

    def __init__(self, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}/"
        self.files: dict[str, bytes] = {}
        self.cut: set[str] = set()
        self.asked: list[str] = []

    def url(self, name: str) -> str:
        return self.base + quote(name)


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = unquote(self.path[1:])
            site.asked.append(name)
            if name not in site.files:
                self.send_error(404)
                return
            content = site.files[name]
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(
                content[: len(content) // 2] if name in site.cut else content
            )
            self.close_connection = True

        def log_message(self, *args: object) -> None:
            pass

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site = Web(server.server_address[1])
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}
    )
    thread.start()
    yield site
    server.shutdown()
    server.server_close()
    thread.join()
