"""predict from file to file, a batch at a time."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import reticent as rt
from reticent.readers import npz_files, parquet_files
from reticent.released.model import Model
from tests.cli.command import refused, reticent

WIDTH, ROWS = 8, 1_000


@pytest.fixture
def features(tmp_path, monkeypatch):
    """A model, and new examples as Parquet, NPZ and a folder of shards, read about 64 rows at a time."""
    draw = np.random.default_rng(0)
    means = 3 * draw.normal(size=(5, WIDTH))
    y = draw.integers(5, size=ROWS)
    x = (means[y] + draw.normal(size=(ROWS, WIDTH))).astype(np.float32)
    x[7], x[500] = np.nan, 0
    labels = rt.PublicLabels([f"label {i}" for i in range(5)])
    model = rt.ContinualClassifier(labels=labels, budget=rt.Budget(epsilon=8.0, delta=1e-5), path=tmp_path / "model")
    model.learn_task(x[8:400], [f"label {i}" for i in y[8:400]], name="march")
    table = pa.table({"id": [f"p{i}" for i in range(ROWS)], "x": pa.FixedSizeListArray.from_arrays(x.ravel(), WIDTH)})
    pq.write_table(table, tmp_path / "new.parquet", row_group_size=300)
    (tmp_path / "shards").mkdir()
    for i in range(4):
        pq.write_table(table.slice(250 * i, 250), tmp_path / "shards" / f"{i}.parquet")
    np.savez(tmp_path / "new.npz", x=x)
    for reader in (parquet_files, npz_files):
        monkeypatch.setattr(reader, "BATCH", 64 * WIDTH * 4)
    found = model.top_k_proba(x, 2)
    return tmp_path, found, model.predict(x)


@pytest.mark.parametrize("name", ["new.parquet", "new.npz", "shards"])
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_predictions_in_batches_are_those_in_memory(features, name, ending, monkeypatch):
    folder, (labels, chances), _ = features
    batches, best = [], Model.best

    def counted(*given, **more):
        batches.append(len(given[1]))
        return best(*given, **more)

    monkeypatch.setattr(Model, "best", counted)
    words = ["predict", folder / name, "--model", folder / "model", "--features", "x", "--top-k", "2", "--proba"]
    done = reticent(*words, "-o", folder / f"out{ending}")
    assert done.returncode == 0, done.stderr
    assert sum(batches) == ROWS
    assert max(batches) < ROWS // 2
    read = pa.csv.read_csv if ending == ".csv" else pq.read_table
    found = read(folder / f"out{ending}").to_pydict()
    assert found["row"] == list(range(1, ROWS + 1))
    assert found["label"] == labels[:, 0].tolist()
    assert found["label_2"] == labels[:, 1].tolist()
    shown = [np.nan if chance is None or chance == "" else chance for chance in found["probability"]]
    np.testing.assert_allclose(shown, chances[:, 0], atol=1e-6)


def test_kept_columns_and_json_follow_the_rows(features):
    folder, _, plain = features
    words = ["predict", folder / "new.parquet", "--model", folder / "model", "--features", "x", "--keep", "id"]
    assert reticent(*words, "-o", folder / "out.parquet").returncode == 0
    found = pq.read_table(folder / "out.parquet").to_pydict()
    assert found["id"] == [f"p{i}" for i in range(ROWS)]
    assert found["label"] == plain.tolist()
    done = reticent(*words, "--json")
    assert [row[0] for row in json.loads(done.stdout)["labels"]] == plain.tolist()


def test_a_shard_that_cannot_be_read_leaves_no_predictions(features):
    folder, _, _ = features
    whole = (folder / "shards" / "2.parquet").read_bytes()
    middle = len(whole) // 3
    damaged = whole[:4] + b"\0" * middle + whole[4 + middle :]  # footer and schema stay
    (folder / "shards" / "2.parquet").write_bytes(damaged)
    words = ["predict", folder / "shards", "--model", folder / "model", "--features", "x"]
    assert "2.parquet" in refused(reticent(*words, "-o", folder / "out.csv"))
    assert not [path for path in folder.iterdir() if "out" in path.name]
