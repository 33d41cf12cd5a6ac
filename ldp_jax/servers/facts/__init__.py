"""Public facts before anybody reports, found once for every epsilon."""
