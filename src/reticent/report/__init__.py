"""Tables, plots and pages for people, from plans, releases, ledgers and results; nothing here sees sensitive data."""
