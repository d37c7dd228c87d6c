"""Tables, plots and pages for people, from plans, releases, ledgers and results; no example of a user is read here."""
