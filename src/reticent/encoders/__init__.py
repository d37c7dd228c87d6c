"""Encoders: public weights that turn texts and images into features. Importing this room imports no torch.

An encoder is a frozen value and a callable, `inputs -> float32 (n, width)`, whose features of an example depend on
that example alone. What an encoder cannot use becomes a row of NaN, which the gate drops without a word.
"""

from reticent.encoders.adapters import film, last_layer, lora
from reticent.encoders.encoder import Encoder
from reticent.encoders.huggingface import hf
from reticent.encoders.images import efficientnet_lite0, timm
from reticent.encoders.text import minilm
from reticent.encoders.wrapped import wrap

__all__ = ["Encoder", "efficientnet_lite0", "film", "hf", "last_layer", "lora", "minilm", "timm", "wrap"]
