"""Values of a page that no model has made."""

import pytest

from made_up import COLUMNS, PLANTED, RATE, made_up


@pytest.fixture(scope="session")
def fleet_report():
    """Function that makes such values; `planted` and `columns` say what is in them."""
    made_up.planted = PLANTED
    made_up.columns = COLUMNS
    made_up.rate = RATE
    return made_up
