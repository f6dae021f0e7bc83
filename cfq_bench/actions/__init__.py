"""Action sets A(x), their costs and projections, and the solvers that search them."""
