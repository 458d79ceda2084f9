"""Pure functions of arrays: each opens with the objective it minimises."""
