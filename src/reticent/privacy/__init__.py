"""What a release costs. Public descriptions and formulas; no data and no randomness.

Here live events (what was spent), their cost (`profiles`, `gaussian`, `pld`, `renyi`, `repeats`; `accounting` is the
entrance), the formulas of label mechanisms (`selection`), plans made before data exists, privacy statements, and
confidence limits. What draws noise belongs to `gate`.
"""
