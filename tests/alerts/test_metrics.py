"""The Prometheus text, read by Prometheus' own parser."""

import pytest

from manyone.alerts.metrics import Metric, prometheus_text

parser = pytest.importorskip("prometheus_client.parser")


def test_the_parser_of_prometheus_reads_what_is_written():
    metrics = [
        Metric("rows_total", "Rows judged.", 1_000_000),
        Metric("drifting_tasks", "Tasks that drift.", 0),
        Metric("watch_seconds", "Seconds of the last run.", 1.5e-7),
    ]
    text = prometheus_text(metrics)
    read = list(parser.text_string_to_metric_families(text))
    assert [family.type for family in read] == ["counter", "gauge", "gauge"]
    samples = [sample for family in read for sample in family.samples]
    names = ["manyone_rows_total", "manyone_drifting_tasks", "manyone_watch_seconds"]
    assert [sample.name for sample in samples] == names
    assert [sample.value for sample in samples] == [1_000_000, 0, 1.5e-7]
    assert [family.documentation for family in read] == [m.meaning for m in metrics]
    assert text.endswith("\n")
