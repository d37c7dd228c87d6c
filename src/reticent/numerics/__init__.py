"""Arithmetic and files that know nothing about privacy: rows, high precision, atomic writes, progress bars."""
