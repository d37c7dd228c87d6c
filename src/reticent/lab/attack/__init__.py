"""Attacks that measure privacy from below: the membership game on labels, and audits of whole configurations."""
