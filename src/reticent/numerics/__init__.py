"""Arithmetic, files and threads that know nothing about privacy and import nothing of reticent but its errors.

Contains scaling of rows, high precision, atomic writes, progress bars and how threads wait.
"""
