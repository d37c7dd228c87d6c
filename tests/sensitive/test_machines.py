"""Machines of a cluster: those that could change a bit are refused, by public facts."""

import pytest

from reticent import errors
from reticent.sensitive.engines import machines
from reticent.sensitive.engines.machines import machine_here, one_kind


def test_machines_of_one_kind_are_accepted(tmp_path):
    (tmp_path / "march.parquet").write_bytes(b"123")
    here = machine_here([tmp_path / "march.parquet", tmp_path])
    assert [size for _, size in here.files] == [3, 0]
    assert one_kind(here, [here, here]) == machine_here()


def test_the_processor_of_the_driver_may_be_another():
    there = machine_here()._replace(processor="other")
    assert one_kind(machine_here(), [there, there]) == there


@pytest.mark.parametrize("name", ["Python", "ray", "reticent", "numba"])
def test_other_versions_are_refused(name):
    here = machine_here()
    other = here._replace(versions=tuple((n, "0.0.1" if n == name else v) for n, v in here.versions))
    with pytest.raises(errors.ReticentError, match=rf"Expected {name} .* as here; one has 0\.0\.1\. Nothing was spent"):
        one_kind(here, [here, other])


def test_processors_of_two_kinds_are_refused():
    here = machine_here()
    with pytest.raises(errors.ReticentError, match="Expected processors of one kind"):
        one_kind(here, [here, here._replace(processor="other")])


@pytest.mark.parametrize("name", machines._KERNELS)
def test_processors_that_are_used_in_two_ways_are_of_two_kinds(monkeypatch, name):
    here = machine_here()
    monkeypatch.setenv(name, "AVX2")
    there = machines._machine.__wrapped__()
    monkeypatch.delenv(name)
    with pytest.raises(errors.ReticentError, match="Expected processors of one kind"):
        one_kind(here, [machines._machine.__wrapped__(), there])


@pytest.mark.parametrize("seen", [-1, 4])
def test_files_that_a_machine_sees_otherwise_are_refused(tmp_path, seen):
    file = tmp_path / "march.parquet"
    file.write_bytes(b"123")
    here = machine_here([file])
    with pytest.raises(errors.ReticentError, match=r"Expected march.parquet on every machine"):
        one_kind(here, [here._replace(files=((str(file), seen),))])


def test_a_file_that_is_not_there_has_no_size(tmp_path):
    assert machine_here([tmp_path / "gone.csv"]).files == ((str(tmp_path / "gone.csv"), -1),)


def test_a_cluster_without_machines_is_refused():
    with pytest.raises(errors.ReticentError, match="at least one processor"):
        one_kind(machine_here(), [])
