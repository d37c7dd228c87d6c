import shutil
import subprocess

import pytest

from tests.cli.command import NUMBERS, refused, reticent, write_csv


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
    learn = ["learn", data, "--model", model, *NUMBERS, "--label", "code", "--anchor", note]
    shutil.copytree(model, started / "backup")
    assert reticent(*learn).returncode == 0
    assert reticent("ledger", model, "--check", note).returncode == 0
    shutil.rmtree(model)
    shutil.copytree(started / "backup", model)
    assert "does not continue the anchor" in refused(reticent(*learn))
    assert "does not continue the anchor" in refused(reticent("ledger", model, "--check", note))
    assert "march" not in reticent("ledger", model).stdout
