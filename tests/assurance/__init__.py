"""What `make assurance` tries, at full size; the tests of the same names try a part of it."""
