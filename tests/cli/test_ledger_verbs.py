import shutil
import subprocess

import pytest

from reticent.gate.ledger import Ledger
from reticent.privacy.events import Gaussian
from tests.cli.command import EACH, NUMBERS, refused, reticent, write_csv


@pytest.fixture
def keys(tmp_path):
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "officer"], check=True)
    return tmp_path / "officer", tmp_path / "officer.pub"


def test_signed_anchors_by_the_command_line(started, keys):
    private, public = keys
    model, note = started / "model", started / "anchor.json"
    assert reticent("ledger", model, "--anchor", note, "--key", private).returncode == 0
    assert reticent("ledger", model, "--check", note, "--key", public).returncode == 0
    note.write_text(note.read_text().replace('"row": 1', '"row": 2'))
    assert "not signed by" in refused(reticent("ledger", model, "--check", note, "--key", public))
    assert "--key with either" in refused(reticent("ledger", model, "--key", public))


def test_learning_with_an_anchor_notices_a_folder_that_went_back(started):
    """Without the note outside the folder, the same budget would be spent twice."""
    model, note = started / "model", started / "anchor.json"
    data = write_csv(started / "march.csv", ["x", "y"], each=20)
    learn = ["learn", EACH, data, "--model", model, *NUMBERS, "--label", "code", "--anchor", note]
    shutil.copytree(model, started / "backup")
    assert reticent(*learn).returncode == 0
    assert reticent("ledger", model, "--check", note).returncode == 0
    shutil.rmtree(model)
    shutil.copytree(started / "backup", model)
    assert "does not continue the anchor" in refused(reticent(*learn))
    assert "does not continue the anchor" in refused(reticent("ledger", model, "--check", note))
    assert "march" not in reticent("ledger", model).stdout


def test_what_is_refused_voids_nothing(started):
    """A ledger that does not continue its anchor is not written to."""
    with Ledger.open(started / "model") as ledger:
        ledger.spend(Gaussian(noise_multiplier=9.0), task="march", private=True)
    for check in ("missing.json", "anchor.json"):
        (started / "anchor.json").write_text('{"anchor": 1, "identity": "x", "row": 1, "head": "y", "signature": null}')
        refused(reticent("ledger", started / "model", "--check", started / check, "--void", 2, "--reason", "lost"))
    assert "voided:" not in reticent("ledger", started / "model").stdout


def test_a_mistyped_anchor_is_no_anchor(started):
    model, data = started / "model", write_csv(started / "march.csv", ["x", "y"], each=20)
    learn = ["learn", EACH, data, "--model", model, *NUMBERS, "--label", "code"]
    assert reticent(*learn, "--anchor", started / "anchor.json").returncode == 0
    assert "Make one first" in refused(reticent(*learn, "--name", "april", "--anchor", started / "ancor.json"))
    assert "april" not in reticent("ledger", model).stdout


@pytest.mark.parametrize("name", ["ledger.sqlite", "manifest.json", "releases/0001.safetensors", "."])
def test_no_output_replaces_a_file_of_a_model(started, name):
    model, data = started / "model", write_csv(started / "march.csv", ["x", "y"], each=20)
    assert reticent("learn", EACH, data, "--model", model, *NUMBERS, "--label", "code").returncode == 0
    before = {file: file.read_bytes() for file in model.rglob("*") if file.is_file()}
    target = model / name
    for verb in (
        ["report", model, "--out", target],
        ["predict", data, "--model", model, *NUMBERS, "-o", target],
        ["ledger", model, "--anchor", target],
    ):
        assert "Error" in refused(reticent(*verb))
    assert {file: file.read_bytes() for file in model.rglob("*") if file.is_file()} == before
