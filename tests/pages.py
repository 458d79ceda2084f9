"""What tests of pages share."""

import json


def requested_by(browser):
    """Addresses that the open page has asked for since the log was last read."""
    page = browser.current_url.partition("#")[0]
    events = [
        json.loads(entry["message"])["message"]
        for entry in browser.get_log("performance")
    ]
    return [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
        # Not those of the browser's own first tab, which may still be loading.
        and event["params"]["documentURL"].startswith(page)
    ]


def assert_loads_nothing_from_elsewhere(browser):
    """The open page has complained about nothing and asked no server."""
    from selenium.webdriver.support.ui import WebDriverWait

    assert browser.get_log("browser") == []
    # The log of a busy browser comes late; the page itself is always in it.
    asked = WebDriverWait(browser, 10).until(requested_by)
    elsewhere = [u for u in asked if not u.startswith(("file:", "data:", "blob:"))]
    assert elsewhere == []
