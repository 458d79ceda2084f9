"""Side by side with rivals, as ratios in one run: ``manyone bench``."""

from manyone.bench.cases import CASES, QUICK, Case
from manyone.bench.run import Measured, measure

__all__ = ["CASES", "QUICK", "Case", "Measured", "measure"]
