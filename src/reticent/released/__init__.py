"""Releases, and post-processing of them: everything here may be published, logged and plotted.

Here live releases and how they are stored, the ledger for reading, and the rules that turn releases into predictions.
Nothing here draws noise or sees an example that was learned, so a model is shipped without the gate.
"""
