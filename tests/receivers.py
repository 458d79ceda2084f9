"""A receiver of messages on loopback that can refuse, hang, die and come back."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """Takes POSTed JSON; `behaviour` says what happens to the n-th request.

    It is called with n = 0, 1, ... and returns a status, or "hang" or "drop".
    """

    def __init__(self, behaviour=lambda n: 200, port=0):
        self.behaviour = behaviour
        self.delivered = []
        self.requests = 0
        self.headers = []
        self._hanging = threading.Event()
        self._lock = threading.Lock()
        self._port = port
        self._server = None
        self.start()

    def start(self):
        """Listen, on the same port as before."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                receiver._answer(self)

            def do_GET(self):
                self.send_response(200)  # as where a redirect leads
                self.end_headers()

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        self._port = self._server.server_port
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.daemon = True
        thread.start()

    def _answer(self, request):
        size = int(request.headers["Content-Length"])
        content = json.loads(request.rfile.read(size))
        with self._lock:
            number = self.requests
            self.requests += 1
            what = self.behaviour(number)
            self.headers.append(dict(request.headers))
            if isinstance(what, int) and 200 <= what < 300:
                self.delivered.append((time.monotonic(), content))
        if what == "hang":
            self._hanging.wait(60)
            return
        if what == "drop":
            request.connection.close()
            return
        request.send_response(what)
        if 300 <= what < 400:
            request.send_header("Location", self.address)
        request.end_headers()

    @property
    def address(self):
        return f"http://127.0.0.1:{self._port}/hook/very-secret"

    @property
    def ids(self):
        """Of what was delivered, in order."""
        return [content["id"] for _, content in self.delivered]

    def die(self):
        """Stop listening."""
        self._hanging.set()
        self._server.shutdown()
        self._server.server_close()
        self._hanging.clear()
