"""What is public before anybody reports: found once, for every epsilon."""
