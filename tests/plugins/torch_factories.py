"""Modules that tests export, good and bad: each function here is what a user would name as a source."""

from __future__ import annotations

import torch
from torch import nn


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.linear(x) * scale
        return {"scores": y, "sum": y.sum(-1)}


def several_examples(width: int = 4) -> tuple[nn.Module, list[tuple[torch.Tensor, torch.Tensor]]]:
    torch.manual_seed(0)
    assert width == 4, "only width 4"
    examples = [(torch.randn(2, 5, 4), torch.randn(2, 1, 1)), (torch.randn(3, 7, 4), torch.randn(3, 1, 1))]
    return TwoInputs(), examples


def one_example() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    module, examples = several_examples()
    return module, examples[0]


def needs_arguments(width: int, *, depth: int) -> nn.Module:
    return nn.Linear(width, depth)


def raises() -> nn.Module:
    raise RuntimeError("no weights today")


def returns_text() -> str:
    return "a module"


def no_example() -> nn.Module:
    return nn.Linear(2, 2)


class BranchOnValue(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:  # the line that the error names
            return x * 2
        return x - 1


def branches() -> tuple[nn.Module, list[tuple[torch.Tensor]]]:
    return BranchOnValue(), [(torch.ones(2, 3),), (-2 * torch.ones(3, 3),)]


class ScriptOnly(nn.Module):
    """The size of the output depends on values: dynamo cannot trace it, TorchScript can, and rightly."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = x[x[:, 0] > 0]
        return kept.sum(0) if kept.shape[0] != 99 else kept.sum(0) * 2


def script_only() -> tuple[nn.Module, list[tuple[torch.Tensor]]]:
    torch.manual_seed(0)
    return ScriptOnly(), [(torch.randn(6, 3),), (torch.randn(9, 3),)]


class MeanOfUnmasked(nn.Module):
    """Traced on a mask of ones by TorchScript it would become a plain mean."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if torch.jit.is_tracing() and bool((mask == 1).all()):
            return x.mean(1)
        return (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def mask_of_ones() -> tuple[nn.Module, list[tuple[torch.Tensor, torch.Tensor]]]:
    torch.manual_seed(0)
    return MeanOfUnmasked(), [(torch.randn(n, n + 2, 3), torch.ones(n, n + 2)) for n in (2, 3)]


class UnusedInput(nn.Module):
    def forward(self, x: torch.Tensor, unused: torch.Tensor) -> torch.Tensor:
        return x * 2


def unused_input() -> tuple[nn.Module, list[tuple[torch.Tensor, torch.Tensor]]]:
    return UnusedInput(), [(torch.ones(2, 3), torch.ones(2)), (torch.ones(4, 3), torch.ones(4))]


class Recurrent(nn.Module):
    """A state of fixed size, in a dictionary, beside one that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.cell = nn.GRUCell(8, 8)
        self.out = nn.Linear(16, 11)

    def forward(
        self, input_ids: torch.Tensor, state: dict[str, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        embedded = self.embed(input_ids[:, -1])
        if state is None:
            state = {"hidden": embedded * 0, "seen": embedded[:, None][:, :0]}
        hidden = self.cell(embedded, state["hidden"])
        seen = torch.cat([state["seen"], hidden[:, None]], 1)
        return self.out(torch.cat([hidden, seen.mean(1)], -1)), {"hidden": hidden, "seen": seen}


def recurrent() -> tuple[nn.Module, list[dict[str, torch.Tensor]]]:
    torch.manual_seed(0)
    ids = [{"input_ids": torch.randint(0, 11, (batch, 3))} for batch in (2, 3)]
    return Recurrent(), ids


class ConvNet(nn.Module):
    """One convolution whose output only a normalization reads, and one that something else reads too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, bias=False), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.other = nn.BatchNorm2d(4), nn.BatchNorm2d(4)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(self.first(pixels)).relu()
        shared = self.second(hidden)
        return self.other(shared) + shared


def conv_net() -> tuple[nn.Module, list[tuple[torch.Tensor]]]:
    torch.manual_seed(0)
    module = ConvNet()
    with torch.no_grad():
        for _ in range(4):
            module(torch.randn(4, 3, 8, 8) * 2 + 1)
    return module, [(torch.randn(2, 3, 8, 8),), (torch.randn(3, 3, 8, 8),)]


class IgnoresOneFeature(nn.Module):
    """Its first feature is large and counts for nothing: 8 bits for all of them leave none to the others."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.first = nn.Linear(size, size, bias=False)
        self.second = nn.Linear(size, 8, bias=False)
        self.first.weight.data[:, 0] = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def linear_layers(outlier: float = 1.0, size: int = 64) -> tuple[nn.Module, list[tuple[torch.Tensor]]]:
    torch.manual_seed(0)
    examples = [torch.randn(2, 3, size), torch.randn(3, 5, size)]
    for example in examples:
        example[..., 0] *= outlier
    return IgnoresOneFeature(size), [(example,) for example in examples]


class Noisy(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)


def noisy() -> tuple[nn.Module, tuple[torch.Tensor]]:
    return Noisy(), (torch.ones(2, 3),)


def unseeded() -> tuple[nn.Module, tuple[torch.Tensor]]:
    return nn.Linear(3, 2), (torch.randn(2, 3),)
