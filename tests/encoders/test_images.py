"""Images: arrays, paths and PIL images, the embedded EfficientNet-Lite0, and timm's models."""

import itertools
import os
import re
import sys
import types
import warnings

import numpy as np
import pytest

from reticent import encoders, errors
from reticent.encoders import images
from tests.encoders.samples import assert_depends_on_the_example_alone, needs_lite0, pictures

pytestmark = pytest.mark.usefixtures("one_thread")


@needs_lite0
def test_image_encoders_read_no_names(lite0):
    assert not lite0.reads_texts


@needs_lite0
def test_the_public_probe_of_images_is_not_an_all_zero_image(lite0):
    """Nor is it plain, or of one colour, before or after it is prepared: that would hide what depends on values."""
    probe = lite0.backend.probe
    (item,) = lite0.prepare([probe])
    assert item is not None
    for colours in (np.moveaxis(probe, 2, 0), item[0]):
        assert len(colours) == 3
        assert all(len(np.unique(colour)) >= 200 for colour in colours)
        assert all((one != other).mean() > 0.9 for one, other in itertools.combinations(colours, 2))
        assert all((np.ptp(colour, axis=axis) > 0).all() for colour in colours for axis in (0, 1))


@needs_lite0
def test_images_depend_on_themselves_alone(lite0):
    assert_depends_on_the_example_alone(lite0, pictures(18), alone=1, sizes=(3,))


@needs_lite0
def test_lite0_gives_the_shared_features(lite0, shared_data):
    with np.load(shared_data / "cifar100_test_images.npz") as images:
        x = images["x"][:8]
        y = images["y"]
    with np.load(shared_data / "cifar100_efficientnet_lite0.npz") as stored:
        expected = stored["x_test"][:8] * stored["scale"].astype(np.float64)
        np.testing.assert_array_equal(stored["y_test"], y)
    cosine = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(lite0(x), expected, strict=True)]
    assert min(cosine) > 0.99


@needs_lite0
def test_arrays_images_and_paths_are_the_same(lite0, tmp_path):
    from PIL import Image

    (array,) = pictures(1)
    Image.fromarray(array).save(tmp_path / "a.png")
    x = lite0([array, Image.fromarray(array), tmp_path / "a.png", str(tmp_path / "a.png")])
    for row in x[1:]:
        np.testing.assert_array_equal(row, x[0])
    np.testing.assert_array_equal(lite0(array[None])[0], x[0])


@needs_lite0
def test_unusable_images_become_nan(lite0, tmp_path, capfd):
    from PIL import Image

    (good,) = pictures(1)
    corrupt = tmp_path / "corrupt.png"
    corrupt.write_bytes(b"\x89PNG\r\n\x1a\nnot an image")
    tiff = tmp_path / "damaged.tif"  # its decoder writes to the error stream by itself
    Image.fromarray(good).save(tiff, compression="tiff_adobe_deflate")
    content = bytearray(tiff.read_bytes())
    content[40:60] = bytes(20)
    tiff.write_bytes(content)
    bad = [
        None,
        corrupt,
        tiff,
        tmp_path / "missing.png",
        "",
        float("nan"),
        good.astype(float),
        good[:0],
        good[0, 0],
        b"x",
    ]
    x = lite0([good, *bad, good])
    assert np.isnan(x).all(axis=1).tolist() == [False, *[True] * len(bad), False]
    np.testing.assert_array_equal(x[0], x[-1])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 3)])
@pytest.mark.parametrize("make", [encoders.efficientnet_lite0, lambda: encoders.timm("a"), lambda: encoders.hf("a")])
def test_a_single_image_is_refused(make, shape):
    with pytest.raises(
        errors.InvalidValue, match=r"^Expected a batch of images: .* got a single array of \d dimensions\.$"
    ):
        make()(np.zeros(shape, dtype=np.uint8))


@needs_lite0
def test_timm_models_run_with_their_own_preprocessing(monkeypatch):
    """A stand-in for timm, with its two functions that we call."""
    import torch

    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 6, 4), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    network.num_features = 6
    settings = {
        "input_size": (3, 24, 24),
        "crop_pct": 0.9,
        "interpolation": "bicubic",
        "mean": (0.5,) * 3,
        "std": (0.5,) * 3,
    }
    fake = types.ModuleType("timm")
    monkeypatch.setattr(fake, "create_model", lambda name, pretrained, num_classes: network, raising=False)
    data = types.SimpleNamespace(resolve_model_data_config=lambda model: settings)
    monkeypatch.setattr(fake, "data", data, raising=False)
    monkeypatch.setitem(sys.modules, "timm", fake)
    encoder = encoders.timm("stand-in")
    assert encoder.width == 6
    assert_depends_on_the_example_alone(encoder, pictures(36), alone=5)
    assert re.fullmatch("[0-9a-f]{64}", encoder.digest)


def test_large_images_are_not_decoded(tmp_path, monkeypatch):
    """A file of 20 KB took a gigabyte."""
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    file = tmp_path / "bomb.png"
    image.new("1", (13_000, 13_000)).save(file)
    assert file.stat().st_size < 50_000
    with monkeypatch.context() as patched:
        patched.setattr(image.Image, "load", lambda _: pytest.fail("decoded"))
        assert images.read(file) is None
    image.new("RGB", (9, 7)).save(file)
    found = images.read(file)
    assert (found.mode, found.size) == ("RGB", (9, 7))
    monkeypatch.setattr(images, "MOST_BYTES", 10)
    assert images.read(file) is None


@pytest.mark.posix
def test_only_regular_files_are_opened(tmp_path):
    pytest.importorskip("PIL.Image", reason="needs Pillow")
    os.mkfifo(tmp_path / "pipe.png")
    for path in (tmp_path / "pipe.png", "/dev/zero", tmp_path, "a\0b", "\udce9.png"):
        assert images.read(path) is None


def test_images_are_converted_as_before(tmp_path):
    """What is RGB already is not copied; all else is converted."""
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    picture = image.fromarray(np.random.default_rng(0).integers(0, 255, (9, 7, 4), dtype=np.uint8))
    for mode, kind in itertools.product(("RGB", "RGBA", "L", "P", "1"), ("PNG", "GIF", "WEBP", "BMP")):
        picture.convert(mode).save(tmp_path / "a", kind)
        with image.open(tmp_path / "a") as opened, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = opened.convert("RGB")
        found = images.read(tmp_path / "a")
        assert (found.mode, found.size, found.tobytes()) == ("RGB", wanted.size, wanted.tobytes())
