"""Pure functions of arrays: each opens with the objective it minimises."""

from manyone.solvers.sparse_group_lasso import group_max, l1_max, sparse_group_lasso

__all__ = ["group_max", "l1_max", "sparse_group_lasso"]
