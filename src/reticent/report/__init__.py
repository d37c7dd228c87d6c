"""Tables, plots and pages for readers, from plans, releases, ledgers and results; no sensitive example is read here."""
