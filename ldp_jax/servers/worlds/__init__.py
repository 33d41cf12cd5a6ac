"""Simulated users, drawn from public facts, for rehearsals."""
