"""May be published, logged, plotted: everything here is a release or post-processing of releases."""
