"""Figures and pages from plans, releases, ledgers and results."""
