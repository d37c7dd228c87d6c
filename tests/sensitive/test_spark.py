"""The recipe of docs/cluster.md, on Spark in this machine: the same release, to the bit."""

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent.gate.noise import NoiseSource

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="reticent[spark]"),
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.filterwarnings("ignore"),  # of Spark, about itself
]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        yield session
        session.stop()


@pytest.mark.parametrize("policy", [rt.PublicLabels(["a", "b"]), rt.ReleasedLabels()], ids=["public", "released"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_spark_gives_the_same_release(spark, policy, partitions):
    features = np.random.default_rng(5).normal(size=(500, 4)).astype(np.float32)
    labels = ["a" if i % 2 else "b" if i % 3 else "c" for i in range(500)]
    rows = list(zip(features.tolist(), labels, strict=True))
    frame = spark.createDataFrame(rows, "embedding array<float>, code string").repartition(partitions)
    table = rt.engines.InArrow(
        mapped=lambda function, schema: frame.mapInArrow(function, schema).toArrow().to_batches(),
        features="embedding",
        width=4,
        label="code",
    )
    found = []
    for given in ((table,), (features, labels)):
        model = rt.ContinualClassifier(
            labels=policy, budget=rt.Budget(epsilon=8.0, delta=1e-5), noise=NoiseSource.seeded(3)
        )
        model.learn_task(*given, name="march", each_row_is_a_person=True)
        release = model.releases[-1]
        found.append((release.labels.labels, {name: a.tolist() for name, a in release.parameters.items()}))
    assert found[0] == found[1]
