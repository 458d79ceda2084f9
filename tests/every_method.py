"""Every method of the registry and, made like one, a combination of two views."""

from __future__ import annotations

import pytest

from manyone import CombinedOneClass, IndependentOCKSR, JointOCKSR
from manyone.estimators import METHODS


class Pair:
    """Called as the class of a method is; both views share its parameters."""

    __name__ = "CombinedOneClass"
    can = CombinedOneClass.can
    enroll = CombinedOneClass.enroll
    forget = CombinedOneClass.forget

    def __call__(self, alarm_rate=0.05, **params):
        views = [("joint", JointOCKSR(**params)), ("alone", IndependentOCKSR(**params))]
        return CombinedOneClass(estimators=views, alarm_rate=alarm_rate)


PAIR = Pair()
EVERY_METHOD = {**METHODS, "combined": PAIR}
methods = pytest.mark.parametrize(
    "method", EVERY_METHOD.values(), ids=EVERY_METHOD.keys()
)


def parameters(method) -> set[str]:
    """Names of the parameters of a method; of the pair, those that both views have."""
    if method is PAIR:
        return set(JointOCKSR().get_params()) & set(IndependentOCKSR().get_params())
    return set(method().get_params())
