"""What tests of pages share."""

import json


def assert_loads_nothing_from_elsewhere(browser):
    """The page that is open has complained about nothing and asked no server for anything."""
    assert browser.get_log("browser") == []
    events = [
        json.loads(entry["message"])["message"]
        for entry in browser.get_log("performance")
    ]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
        # Not those of the browser's own first tab, which may still be loading.
        and not event["params"]["documentURL"].startswith("chrome://")
    ]
    assert asked and all(url.startswith(("file:", "data:", "blob:")) for url in asked)
