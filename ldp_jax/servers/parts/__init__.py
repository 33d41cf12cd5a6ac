"""Pure functions between arrays that servers are made of."""
