"""Golden runs: what the benchmark's code gave for one run of every kind, to compare with what it gives today."""
