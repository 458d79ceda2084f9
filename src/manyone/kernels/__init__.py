"""Kernels: evaluation, widths from data, and Gram matrices of training rows."""

from manyone.kernels.gram import FeatureMap, Gram, Points
from manyone.kernels.kernel import KERNELS, MIXTURE, Kernel, resolve_kernel

__all__ = [
    "KERNELS",
    "MIXTURE",
    "FeatureMap",
    "Gram",
    "Kernel",
    "Points",
    "resolve_kernel",
]
