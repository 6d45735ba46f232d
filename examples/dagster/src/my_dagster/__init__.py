"""A team's own Dagster: its assets, and its evaluations beside them."""
