"""What a release costs: events, their accounting, plans, statements. Public descriptions only; no data, no randomness."""
