"""Two convolutional nets and a transformer, trained in seconds on scikit-learn's digits, with real accuracy.

    python benchmarks/models/digits.py cnn|resnet|vit --out FOLDER

Writes FOLDER/digits-<name>.onnx, digits-<name>.feeds.npz (held-out images in batches of ``BATCH``, with labels) and
digits-<name>.calib.npz (validation images, with labels; the model has seen neither). The images are 8x8; they are
enlarged to 32x32 so that a convolution has something to do.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional

BATCH = 8
EPOCHS = {"cnn": 4, "resnet": 4, "vit": 25}


class Cnn(nn.Module):
    """Four convolutions with batch normalization, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        widths = (1, 16, 32, 64, 64)
        self.layers = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(a, b, 3, 1 if i == 0 else 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
                for i, (a, b) in enumerate(pairwise(widths))
            )
        )
        self.head = nn.Linear(widths[-1], 10)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.layers(images).mean((2, 3)))


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != width:
            self.shortcut = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, images: Tensor) -> Tensor:
        return functional.relu(self.body(images) + self.shortcut(images))


class ResNet(nn.Module):
    """Three residual blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU())
        self.blocks = nn.Sequential(Block(32, 32, 1), Block(32, 64, 2), Block(64, 128, 2))
        self.head = nn.Linear(128, 10)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(images)).mean((2, 3)))


class Attention(nn.Module):
    """Attention in four heads, and a feed-forward net."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, tokens: Tensor) -> Tensor:
        batch, length, width = tokens.shape
        parts = self.qkv(self.first(tokens)).reshape(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        tokens = tokens + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return tokens + self.mlp(self.second(tokens))


class Vit(nn.Module):
    """A vision transformer: 64 patches of 4x4, three layers of width 64."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, 4, 4)
        self.places = nn.Parameter(0.3 * torch.randn(1, 64, width))
        self.layers = nn.Sequential(*(Attention(width) for _ in range(3)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.patches((images - 0.3) / 0.36).flatten(2).transpose(1, 2) + self.places
        return self.head(self.norm(self.layers(tokens)).mean(1))


MODELS = {"cnn": Cnn, "resnet": ResNet, "vit": Vit}


def main() -> None:
    """Train one, export it, write its feeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(MODELS))
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    (images, digits), (validation, known), (held_out, truth) = data()
    model = MODELS[chosen.name]()
    train(model, images, digits, EPOCHS[chosen.name])
    with torch.no_grad():
        right = (model(held_out).argmax(1) == truth).double().mean().item()
    name = f"digits-{chosen.name}"
    example, batch = images[:2], torch.export.Dim("batch")
    torch.onnx.export(
        model,
        (example,),
        chosen.out / f"{name}.onnx",
        dynamo=True,
        input_names=["images"],
        output_names=["logits"],
        dynamic_shapes=({0: batch},),
        external_data=False,
    )
    write_feeds(chosen.out / f"{name}.feeds.npz", held_out, truth)
    write_feeds(chosen.out / f"{name}.calib.npz", validation, known)
    print(f"{name}: {right:.1%} of {len(truth)} held-out digits are right")


def data() -> list[tuple[Tensor, Tensor]]:
    """Images, 32x32 in 0..1, and their digits: half for training, a fifth for validation, the rest held out."""
    found = load_digits()
    pixels = torch.from_numpy(found.images / 16.0).float()[:, None]
    images = functional.interpolate(pixels, size=(32, 32), mode="bilinear", align_corners=False)
    digits = torch.from_numpy(found.target)
    train, rest = train_test_split(np.arange(len(images)), test_size=0.5, random_state=0, stratify=found.target)
    validation, test = train_test_split(rest, test_size=0.6, random_state=0, stratify=found.target[rest])
    return [(images[part], digits[part]) for part in (train, validation, test)]


def train(model: nn.Module, images: Tensor, digits: Tensor, epochs: int) -> None:
    """Adam with one cycle of the learning rate."""
    batch = 32
    steps = epochs * (len(images) // batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    model.train()
    for _ in range(epochs):
        order = torch.randperm(len(images))
        for start in range(0, len(images) - batch + 1, batch):
            chosen = order[start : start + batch]
            optimizer.zero_grad()
            functional.cross_entropy(model(images[chosen]), digits[chosen]).backward()
            optimizer.step()
            schedule.step()
    model.eval()


def write_feeds(path: Path, images: Tensor, labels: Tensor) -> None:
    """Samples of ``BATCH`` images, ``<i>/images`` and ``<i>/label``; what is left over stays out."""
    arrays = {}
    for number, start in enumerate(range(0, len(images) - BATCH + 1, BATCH)):
        arrays[f"{number}/images"] = images[start : start + BATCH].numpy()
        arrays[f"{number}/label"] = labels[start : start + BATCH].numpy()
    np.savez(path, **arrays)


if __name__ == "__main__":
    main()
