"""The service: scores of the model, refusals of one sentence, a graceful stop."""

import json
import signal
import subprocess
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest
from starlette import testclient

from fleets import machine_tables
from manyone import TableModel, save
from manyone.cli import main
from manyone.serve import body, make_app
from manyone.watch.incidents import incidents_of
from manyone.watch.store import open_store


@pytest.fixture(scope="module")
def fleet():
    """A model, and rows with faults."""
    events, today = machine_tables(5, 25, 3, n_test=20, fault="own")
    today = today.drop(columns="fault")
    model = TableModel("machine", anomalies="faults", method="default")
    return model.fit(pl.from_pandas(events)), pl.from_pandas(today)


@pytest.fixture(scope="module")
def client(fleet):
    return testclient.TestClient(make_app(fleet[0], "fleet.manyone"))


def columns_of(response):
    assert response.status_code == 200, response.text
    return pl.DataFrame(response.json())


def sentence_of(response, status):
    """The one sentence of a refusal."""
    assert response.status_code == status, response.text
    assert [*response.json()] == ["error"]
    text = response.json()["error"]
    assert text.endswith(".") and "\n" not in text and "Traceback" not in text
    return text


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_scores_are_those_of_the_model(fleet, client, kind):
    model, today = fleet
    expected = model.score(today, explain=2)
    if kind == "csv":
        headers = {"Content-Type": "text/csv; charset=utf-8"}
        sent = {"content": today.write_csv().encode(), "headers": headers}
    else:
        sent = {"json": today.to_dicts()}
    scores = columns_of(client.post("/score?explain=2", **sent))
    assert scores.columns == expected.columns and scores["alarm"].any()
    for name in ("row", "task", "alarm", "basis", "reason_1", "reason_2"):
        assert scores[name].to_list() == expected[name].to_list()
    for name in ("score", "p_value"):
        assert scores[name].to_list() == pytest.approx(expected[name].to_list())


def test_values_are_read_as_a_table_would_have_them(fleet, client):
    """Numbers as texts, whole numbers, gaps, further fields, new machines."""
    _, today = fleet
    row = today.to_dicts()[0]
    names = [name for name in row if name != "machine"]
    base = columns_of(client.post("/score", json=[row]))["score"][0]
    as_texts = {name: str(row[name]) for name in names}
    again = columns_of(client.post("/score", json=[row | as_texts | {"more": [1]}]))
    assert again["score"][0] == pytest.approx(base)
    gap = columns_of(client.post("/score", json=[row | {names[0]: None}]))
    assert gap["score"][0] != base
    huge = columns_of(client.post("/score", json=[row | {names[0]: 10**400}]))
    assert huge["alarm"][0]
    new = columns_of(client.post("/score", json=[row | {"machine": "never seen"}]))
    assert new["basis"].to_list() == ["unknown"]
    assert columns_of(client.post("/score", json=[])).height == 0


CSV = {"Content-Type": "text/csv"}
BAD = [
    (b"{not json", {}, 400, "not JSON"),
    (b"[" * 100_000, {}, 400, "not JSON"),
    (b"3", {}, 400, "list of objects"),
    (b"[3]", {}, 400, "Row 0 is no object"),
    (b'[{"machine": "m0", "a": [1]}]', {}, 422, "Row 0"),
    (b'[{"machine": "m0"}]', {}, 422, "column"),
    (b"a,b\n1\n1,2,3\n", CSV, 422, "the table"),
    (b"\x1f\x8b123", CSV, 415, "not compressed"),
    (b"a," * 2**20, CSV, 413, "first line"),
    (b"", CSV, 422, "the table"),
    (b"<a/>", {"Content-Type": "application/xml"}, 415, "application/xml"),
]


@pytest.mark.parametrize(("content", "headers", "status", "words"), BAD)
def test_what_is_wrong_is_one_sentence(client, content, headers, status, words):
    assert words in sentence_of(
        client.post("/score", content=content, headers=headers), status
    )


def test_options_and_pages_that_are_wrong_are_refused(fleet, client):
    rows = fleet[1].to_dicts()[:1]
    for value in ("-1", "x"):
        answer = client.post(f"/score?explain={value}", json=rows)
        assert f"explain={value}: " in sentence_of(answer, 422)
    text = sentence_of(client.post("/score?fdr=0.1", json=rows), 422)
    assert text.startswith("fdr: there is no such option") and "explain" in text
    assert "limit" in sentence_of(client.get("/incidents?most=3"), 422)
    rows[0]["machine"] = "never seen"
    text = sentence_of(client.post("/score?unknown=error", json=rows), 422)
    assert "never seen" in text
    assert "/health" in sentence_of(client.get("/nothing"), 404)
    assert "/score" in sentence_of(client.get("/score"), 405)
    assert "--state" in sentence_of(client.get("/incidents"), 404)


def test_bodies_and_rows_have_a_limit(fleet, client, monkeypatch):
    rows = fleet[1].to_dicts()
    long = b" " * (body.MOST_BYTES + 1)
    assert "16 MiB" in sentence_of(client.post("/score", content=long), 413)
    monkeypatch.setattr(body, "MOST_ROWS", 10)
    assert "in parts" in sentence_of(client.post("/score", json=rows), 413)


def test_health_and_metrics(fleet):
    parser = pytest.importorskip("prometheus_client.parser")
    model, today = fleet
    client = testclient.TestClient(make_app(model, "fleet.manyone"))
    health = client.get("/health").json()
    assert health["status"] == "ok" and health["tasks"] == 5
    assert client.post("/score", json=today.to_dicts()).status_code == 200
    assert client.post("/score", content=b"{").status_code == 400
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = parser.text_string_to_metric_families(response.text)
    values = {s.name: s.value for family in families for s in family.samples}
    assert values["manyone_requests_total"] == 2
    assert values["manyone_requests_refused_total"] == 1
    assert values["manyone_rows_scored_total"] == len(today)
    alarms = model.score(today)["alarm"].sum()
    assert values["manyone_rows_alarmed_total"] == alarms > 0


def test_the_store_of_watch_is_shown_while_it_is_written(fleet, tmp_path, monkeypatch):
    model, today = fleet
    monkeypatch.chdir(tmp_path)
    save(model, "fleet.manyone")
    today.write_csv("today.csv")
    client = testclient.TestClient(make_app(model, state=tmp_path / "s"))
    assert "not there" in sentence_of(client.get("/incidents"), 503)
    assert main(["watch", "fleet.manyone", "today.csv", "--state", "s"]) == 0
    with open_store(tmp_path / "s") as store:
        incidents = client.get("/incidents").json()
        assert incidents and incidents == incidents_of(store)
        assert {"id", "task", "by_chance", "stands_out", "reason"} <= incidents[
            0
        ].keys()
        assert len(client.get("/incidents?limit=1").json()) == 1
        assert f"manyone_rows_total {store.last_row}" in client.get("/metrics").text
    (tmp_path / "s").write_text("nonsense")
    sentence_of(client.get("/incidents"), 503)


def test_rows_come_after_what_watch_has_seen_last(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    walk = 50.0 + np.cumsum(rng.normal(size=(3, 160)), axis=1).ravel()
    table = pl.DataFrame(
        {
            "pump": np.repeat(["a", "b", "c"], 160),
            "when": np.tile(np.arange(160), 3),
            "flow": walk,
        }
    )
    model = TableModel(
        "pump", time="when", history=12, anomalies="faults", method="default"
    )
    model.fit(table.filter(pl.col("when") < 120))
    save(model, "pumps.manyone")
    seen = table.filter(pl.col("when").is_between(120, 150))
    seen.sort("when").write_csv("seen.csv")
    new = table.filter(pl.col("when") > 150)
    after_training = model.score(new)["score"].to_list()
    after_seen = model.score(table.filter(pl.col("when") >= 120)).filter(
        table.filter(pl.col("when") >= 120)["when"] > 150
    )["score"]
    client = testclient.TestClient(make_app(model, state=tmp_path / "s"))
    first = columns_of(client.post("/score", json=new.to_dicts()))
    assert first["score"].to_list() == pytest.approx(after_training)
    assert main(["watch", "pumps.manyone", "seen.csv", "--state", "s"]) == 0
    for _ in range(2):  # nothing is kept of a request
        second = columns_of(client.post("/score", json=new.to_dicts()))
        assert second["score"].to_list() == pytest.approx(after_seen.to_list())
    assert after_training != pytest.approx(after_seen.to_list())
    other = model.set_params(history=5).fit(table)
    client = testclient.TestClient(make_app(other, state=tmp_path / "s"))
    sent = client.post("/score", json=new.to_dicts())
    assert "another model" in sentence_of(sent, 503)


# --- A real server.


@pytest.fixture
def server(fleet, tmp_path):
    """A process that serves, and its address."""
    save(fleet[0], tmp_path / "fleet.manyone")
    command = [
        sys.executable,
        "-m",
        "manyone",
        "serve",
        str(tmp_path / "fleet.manyone"),
    ]
    process = subprocess.Popen(
        [*command, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    line = process.stdout.readline()
    yield process, line.rpartition(" at ")[2].strip()
    if process.poll() is None:
        process.kill()
    process.communicate()


def post(address, rows):
    request = urllib.request.Request(
        f"{address}/score",
        json.dumps(rows).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def test_requests_at_the_same_time_and_a_stop_that_loses_none(fleet, server):
    """Requests that run when it is asked to stop are answered; then it is gone."""
    process, address = server
    model, today = fleet
    rows = today.to_dicts()
    expected = model.score(today)["alarm"].to_list()
    many = rows * 400
    with ThreadPoolExecutor(9) as pool:
        answers = list(pool.map(lambda _: post(address, rows), range(24)))
        slow = pool.submit(post, address, many)
        while not slow.running():
            threading.Event().wait(0.01)
        threading.Event().wait(0.2)
        process.send_signal(signal.SIGTERM)
        assert len(slow.result()) == len(many)
    assert all([row["alarm"] for row in answer] == expected for answer in answers)
    assert process.wait(60) == 143
    assert process.stderr.read() == "manyone: stopped.\n"


def test_a_port_that_is_taken_is_one_line(server, capsys, tmp_path):
    port = server[1].rpartition(":")[2]
    assert main(["serve", str(tmp_path / "fleet.manyone"), "--port", port]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and f"--port {port}" in err
    args = ["--state", str(tmp_path / "none")]
    assert main(["serve", str(tmp_path / "fleet.manyone"), *args]) == 2
    assert "manyone watch makes it" in capsys.readouterr().err
