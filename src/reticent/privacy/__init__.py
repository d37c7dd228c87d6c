"""What a release costs: events, accounting, plans, statements. Public descriptions; no data and no randomness."""
