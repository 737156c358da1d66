"""The test application on Flask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import flask

from tests.receive.desk import BINARY, HEADERS, LARGE, Desk, Oops


def flask_app(desk: Desk) -> flask.Flask:
    app = flask.Flask("desk")

    @app.route("/pay", methods=["GET", "POST", "PUT", "DELETE"])
    def pay() -> flask.Response:
        n = desk.done(flask.request.get_data())
        desk.webhooks.append(flask.request.environ.get("hookline.webhook"))
        response = flask.Response(f'{{"n":{n}}}', desk.next_status(), mimetype="application/json")
        for name, value in HEADERS:
            response.headers.add(name, value)
        return response

    @app.post("/binary")
    def binary() -> Any:
        desk.done(flask.request.get_data())
        return BINARY, 201, {"content-type": "application/octet-stream"}

    @app.post("/empty")
    def empty() -> Any:
        desk.done(b"")
        return "", 204

    @app.post("/slow")
    def slow() -> Any:
        desk.wait()
        return {"n": desk.done(flask.request.get_data())}

    @app.post("/fails")
    def fails() -> Any:
        desk.done(b"")
        raise Oops

    @app.post("/stream")
    def stream() -> Any:
        desk.done(b"")

        def chunks(size: int) -> Iterator[bytes]:
            try:
                for at in range(0, size, 1000):
                    yield LARGE[at : min(at + 1000, size)]
                    if at == 0:
                        desk.entered.release()
            finally:
                desk.closed.set()

        return flask.Response(chunks(int(flask.request.args["size"])), mimetype="text/csv")

    return app
