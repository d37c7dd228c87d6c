"""What a release costs. Public descriptions and formulas; no data and no randomness.

Contains events (what was spent), their cost (`profiles`, `gaussian`, `pld`, `renyi`, `repeats`; `accounting` is the
entry point), the formulas of label mechanisms (`selection`), plans made before data exists, privacy statements, and
confidence limits. What draws noise belongs to `gate`.
"""
