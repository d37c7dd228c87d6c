"""The first minutes with an installed wheel: learns a task, loads the model again, and prints what it predicts."""

import sys

import numpy as np

import reticent as rt

if __name__ == "__main__":
    model = rt.ContinualClassifier(
        labels=rt.PublicLabels(["a", "b"]), budget=rt.Budget(epsilon=20.0, delta=1e-5), path=sys.argv[1]
    )
    model.learn_task(np.repeat(np.eye(2, 4), 200, axis=0), ["a"] * 200 + ["b"] * 200, name="march")
    print(*rt.load(sys.argv[1]).predict(np.eye(2, 4)))
