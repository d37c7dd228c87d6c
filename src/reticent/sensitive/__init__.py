"""May touch private examples. What leaves goes through the gate."""
