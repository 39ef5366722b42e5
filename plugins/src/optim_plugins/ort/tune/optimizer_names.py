"""Names of the graph optimizers that onnxruntime can leave out of a session; it ignores every other name in silence.

A session of onnxruntime 1.31 logs its transformers at level INFO. The rules of its two rule-based transformers, and
what it adds with certain settings, are those of its file ``core/optimizer/graph_transformer_utils.cc``.
"""

from __future__ import annotations

TRANSFORMERS = frozenset(
    {
        "AttentionFusion",
        "BiasDropoutFusion",
        "BiasGeluFusion",
        "BiasSkipLayerNormFusion",
        "BiasSoftmaxFusion",
        "CommonSubexpressionElimination",
        "ConstantFolding",
        "ConstantSharing",
        "ConvActivationFusion",
        "ConvAddActivationFusion",
        "DoubleQDQPairsRemover",
        "DynamicQuantizeMatMulFusion",
        "EmbedLayerNormFusion",
        "FastGeluFusion",
        "FreeDimensionOverrideTransformer",
        "FuseFp16InitializerToFp32NodeTransformer",
        "GatherSliceToSplitFusion",
        "GatherToSliceFusion",
        "GeluFusionL1",
        "GeluFusionL2",
        "GemmActivationFusion",
        "GroupQueryAttentionFusion",
        "GroupQueryAttentionPreNormFusion",
        "LayerNormFusionL1",
        "LayerNormFusionL2",
        "Level1_RuleBasedTransformer",
        "Level2_RuleBasedTransformer",
        "MatMulActivationFusion",
        "MatMulAddFusion",
        "MatMulIntegerToFloatFusion",
        "MatMulNBitsFusion",
        "MatMulScaleFusion",
        "MatmulTransposeFusion",
        "NchwcTransformer",
        "NhwcTransformer",
        "QDQFinalCleanupTransformer",
        "QDQPropagationTransformer",
        "QDQS8ToU8Transformer",
        "QDQSelectorActionTransformer",
        "QuickGeluFusion",
        "ReshapeFusion",
        "SimplifiedLayerNormFusion",
        "SkipLayerNormFusion",
        "SliceConcatToSpaceToDepthFusion",
        "TransposeOptimizer",
        "TransposeOptimizer_CPUExecutionProvider",
        "WeightBiasQuantization",
        "WhereDummyDq",
    }
)
"""Those of every session on a processor."""

_RULES = frozenset(
    {
        "CastChainElimination",
        "CastElimination",
        "ClipQuantRewrite",
        "ConvAddFusion",
        "ConvBNFusion",
        "ConvMulFusion",
        "DivMulFusion",
        "EliminateDropout",
        "EliminateIdentity",
        "EliminateSlice",
        "ExpandElimination",
        "FuseReluClip",
        "GemmSumFusion",
        "GemmTransposeFusion",
        "LabelEncoderFusion",
        "MatMul_BatchNormalization_Fusion",
        "NoopElimination",
        "NotWhereFusion",
        "Pad_Fusion",
        "PreShapeNodeElimination",
        "ReluQuantRewrite",
        "UnsqueezeElimination",
    }
)

_BY_SETTING = frozenset(
    {
        "Avx2WeightS8ToU8Transformer",
        "ConstantFoldingDQ",
        "DQMatMulNBitsFusion",
        "GeluApproximation",
        "GqaValueLayoutTransformer",
        "MatMulNBitsMlpFusion",
        "MatMulNBitsQkvFusion",
    }
)

OPTIMIZERS = TRANSFORMERS | _RULES | _BY_SETTING
