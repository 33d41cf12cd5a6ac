"""The papers' experiments on real graphs: ``python -m experiments --help``."""
