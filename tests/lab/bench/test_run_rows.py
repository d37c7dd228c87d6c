"""Results as rows: what is stored is what is read, and only rows of the present versions are."""

import csv
import io
from typing import Any

import pytest

from reticent import errors
from reticent.lab.bench import run_rows
from reticent.lab.bench.versions import VERSIONS
from tests.lab.tiny import a_run, by_digest, done

DIGESTS = {"data": "d" * 64, "learner": "Cosine()"}


def made(**fields: Any) -> dict[str, Any]:
    return done(a_run(**fields), 0.5 + 0.01 * fields.get("seed", 0), digests=DIGESTS, overall=[0.1, None, 0.3], known=6)


def test_rows_bring_back_what_pages_read(tmp_path):
    results = by_digest([made(seed=seed, share=share) for seed in range(3) for share in (None, 2.5)])
    (tmp_path / "runs.parquet").write_bytes(run_rows.to_parquet(results))
    again = run_rows.read(tmp_path / "runs.parquet")
    assert set(again) == set(results)
    for key, result in results.items():
        for field in ("run", "version", "accuracy", "forgetting", "known", "aggregations", "seconds", "digests"):
            assert again[key][field] == result[field], field
        assert again[key]["overall"] == pytest.approx(result["overall"])
        assert (again[key]["command"], again[key]["environment"]) == (result["command"], result["environment"])
    assert run_rows.count(tmp_path / "runs.parquet") == 6


def test_rows_keep_what_every_order_of_the_tasks_forgets(tmp_path):
    each = [0.125, 0.25, 0.5]
    with_orders = {**made(seed=1), "forgetting": 0.3, "orders": {"number": 3, "forgetting": each}}
    results = by_digest([made(seed=0), with_orders])
    (tmp_path / "runs.parquet").write_bytes(run_rows.to_parquet(results))
    without, again = sorted(run_rows.read(tmp_path / "runs.parquet").values(), key=lambda made: made["run"]["seed"])
    assert again["orders"] == with_orders["orders"]
    assert "orders" not in without


def test_rows_of_a_file_without_orders_are_read(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(run_rows.to_parquet(by_digest([made()]))))
    parquet.write_table(table.drop_columns(["forgetting_by_order"]), tmp_path / "runs.parquet")
    (again,) = run_rows.read(tmp_path / "runs.parquet").values()
    assert again["accuracy"] == made()["accuracy"]
    assert "orders" not in again


def test_equal_results_are_equal_bytes():
    one, two = made(seed=0), made(seed=1)
    assert run_rows.to_parquet(by_digest([one, two])) == run_rows.to_parquet(by_digest([two, one]))


def test_rows_of_other_versions_are_left_out(tmp_path, monkeypatch):
    """Each learner's rows stand on its own version, whichever way it differs; one that is gone has none."""
    rows, each = tmp_path / "runs.parquet", ("cosine", "peft", "my_module:Mine", "gone")
    rows.write_bytes(run_rows.to_parquet(by_digest([{**made(learner=learner), "version": 2} for learner in each])))
    for kind, learner in (("cosine", "cosine"), ("peft", "peft"), ("module:object", "my_module:Mine")):
        assert run_rows.read(rows) == {}
        with monkeypatch.context() as raised:
            raised.setitem(VERSIONS, kind, 2)
            assert [result["run"]["learner"] for result in run_rows.read(rows).values()] == [learner]
    assert len(run_rows.read(rows, of_any_version=True)) == 4


def test_a_row_whose_digest_is_of_another_run_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(run_rows, "_row", lambda result, real=run_rows._row: {**real(result), "digest": "0" * 20})
    (tmp_path / "runs.parquet").write_bytes(run_rows.to_parquet(by_digest([made()])))
    assert run_rows.read(tmp_path / "runs.parquet") == {}


@pytest.mark.parametrize("content", [b"", b"PAR1 no table PAR1", b"seed,accuracy\n1,0.5\n"])
def test_another_file_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "runs.parquet").write_bytes(content)
    with pytest.raises(errors.InvalidValue, match=r"Expected rows of runs in runs\.parquet") as refusal:
        run_rows.read(tmp_path / "runs.parquet")
    assert "\n" not in str(refusal.value)


def test_a_cell_is_one_line_whatever_its_seeds():
    results = by_digest([made(seed=seed) for seed in range(5)] + [made(seed=0, labels="oracle")])
    base, oracle = csv.DictReader(io.StringIO(run_rows.to_csv(results)))
    assert (base["labels"], base["seeds"], base["accuracy"], base["least"], base["most"]) == (
        "base", "5", "52.00", "50.00", "54.00",
    )  # fmt: skip
    assert (oracle["labels"], oracle["seeds"], oracle["version"]) == ("oracle", "1", "1")


def test_a_cell_in_which_all_classes_are_blurry_has_the_accuracy_of_the_tables():
    all_blurry = done(a_run(blurry=100.0), 0.9, overall=[0.1, 0.4])
    (row,) = csv.DictReader(io.StringIO(run_rows.to_csv(by_digest([all_blurry]))))
    assert row["accuracy"] == "40.00"
