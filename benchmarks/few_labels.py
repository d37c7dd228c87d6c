"""Smaller steps for our PEFT where a task has few labels: two learners for benchmarks/few_labels.toml."""

import reticent as rt
from reticent.encoders import last_layer

TASK_SIZE = 288  # of digits: 1,437 examples in five tasks
as_it_is = rt.PeftEnsemble(adapter=last_layer, task_size=TASK_SIZE)
small_steps = rt.PeftEnsemble(adapter=last_layer, task_size=TASK_SIZE, learning_rate=0.001)
