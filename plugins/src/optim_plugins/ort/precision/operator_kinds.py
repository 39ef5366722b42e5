"""Operators by what a 16-bit type does to them."""

from __future__ import annotations

MOVES = frozenset(
    (
        "Reshape",
        "Transpose",
        "Squeeze",
        "Unsqueeze",
        "Flatten",
        "Identity",
        "Gather",
        "GatherElements",
        "GatherND",
        "Slice",
        "Split",
        "Concat",
        "Expand",
        "Tile",
        "Compress",
        "DepthToSpace",
        "SpaceToDepth",
        "ReverseSequence",
    )
)
"""They hand numbers on as they are."""


ANY_TYPE = frozenset({"Shape", "Size"})
"""They look at no number: whichever type is there will do."""


NEVER = frozenset(
    (
        "If",
        "Loop",
        "Scan",
        "SequenceMap",
        "Constant",
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "Range",
        "CumSum",
        "EyeLike",
        "RandomNormal",
        "RandomUniform",
        "RandomNormalLike",
        "RandomUniformLike",
        "Bernoulli",
        "Multinomial",
        "Resize",
        "Upsample",
        "GridSample",
        "RoiAlign",
        "NonMaxSuppression",
        "Sin",
        "Cos",
        "Tan",
        "ReduceSumSquare",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "LpNormalization",
        "Det",
        "DFT",
        "STFT",
        "MelWeightMatrix",
        "BlackmanWindow",
        "HannWindow",
        "HammingWindow",
        "AffineGrid",
        "BitCast",
        "MeanVarianceNormalization",
    )
)


EXACT = frozenset(("Sin", "Cos", "Tan", "Range", "CumSum"))
"""What leads to them must be exact: an angle of 1000.5 is 1000 or 1001 in 16 bits."""


SMALL_ADDENDS = frozenset(("Add", "Max", "Clip"))
"""Where a tiny constant keeps something from being zero: the smallest number there is does that too."""


WEIGHTED = frozenset(
    (
        "MatMul",
        "Gemm",
        "Conv",
        "ConvTranspose",
        "FusedMatMul",
        "FusedConv",
        "FusedGemm",
        "Attention",
        "MultiHeadAttention",
        "GroupQueryAttention",
        "QAttention",
        "PackedAttention",
        "DecoderMaskedMultiHeadAttention",
        "LSTM",
        "GRU",
        "MatMulNBits",
    )
)
"""Operators that a model spends its time in."""
