"""Every step there is: where its class and its independent counterpart are, and which operators it brings.

Imports nothing: the command line asks it what a plan needs before anything is built.
"""

from __future__ import annotations

from dataclasses import dataclass

_EXTENSIONS = "onnxruntime_extensions.tools.pre_post_processing"
_VISION, _PIXELS = "optim_prepost.steps.vision", "optim_prepost.reference.images"
_SCORES, _COUNTED = "optim_prepost.steps.scores", "optim_prepost.reference.scores"
_TEXT, _WORDS = "optim_prepost.steps.text", "optim_prepost.reference.text"
_SPEECH, _SOUND = "optim_prepost.steps.speech", "optim_prepost.reference.speech"
_BOXES = "optim_prepost.reference.boxes"
_PLAIN = "optim_prepost.reference.arrays"

_DOMAIN, _CONTRIB = "com.microsoft.extensions", "ai.onnx.contrib"


@dataclass(frozen=True, slots=True)
class Kind:
    """One step.

    Attributes:
        name: of its class.
        module: that has the class.
        reference: module with a function for it, called as the class in snake_case.
        custom: operators that ONNX itself does not have, as ``domain:Operator``.
        instead: what does the same without them, in one sentence.
        operators: standard operators that it brings.
    """

    name: str
    module: str
    reference: str
    operators: tuple[str, ...] = ()
    custom: tuple[str, ...] = ()
    instead: str = ""


_OUTSIDE = (
    "the tokenizer stays in JavaScript: give the model token ids (input = 'ids'); tokenizer.mjs comes with the page"
)

_KINDS = (
    Kind(
        "ConvertImageToBGR",
        _VISION,
        _PIXELS,
        (
            "Abs",
            "And",
            "Cast",
            "Concat",
            "Constant",
            "Equal",
            "Greater",
            "Mul",
            "NonZero",
            "Not",
            "Or",
            "ReduceMax",
            "ReduceSum",
            "Reshape",
            "Shape",
            "Slice",
            "Sub",
            "Where",
        ),
        (f"{_DOMAIN}:DecodeImage",),
        "raw pixels, uint8 [height, width, 3] (input = 'pixels'): the browser decodes images itself",
    ),
    Kind(
        "ConvertBGRToImage",
        _EXTENSIONS,
        _PIXELS,
        (),
        (f"{_DOMAIN}:EncodeImage",),
        "raw pixels as the output (input = 'pixels'): a canvas shows and encodes them",
    ),
    Kind(
        "DrawBoundingBoxes",
        _EXTENSIONS,
        "",
        (),
        (f"{_DOMAIN}:DrawBoundingBoxes",),
        "the boxes themselves as the output: the page draws them on its canvas",
    ),
    Kind(
        "BertTokenizer",
        _EXTENSIONS,
        _WORDS,
        ("Unsqueeze", "Identity", "Constant"),
        (f"{_DOMAIN}:BertTokenizer",),
        _OUTSIDE,
    ),
    Kind(
        "SentencePieceTokenizer",
        _EXTENSIONS,
        _WORDS,
        ("Unsqueeze", "Identity", "Constant", "Cast", "Greater"),
        (f"{_DOMAIN}:SentencepieceTokenizer",),
        _OUTSIDE,
    ),
    Kind(
        "BertTokenizerQADecoder",
        _EXTENSIONS,
        _WORDS,
        ("ArgMax", "Add", "Unsqueeze", "Slice", "Constant"),
        (f"{_DOMAIN}:BertTokenizerDecoder",),
        "AnswerSpan: the places of the answer's first and last token",
    ),
    Kind(
        "AudioDecoder",
        _SPEECH,
        _SOUND,
        (),
        (f"{_CONTRIB}:AudioDecoder",),
        "samples, float [count] (input = 'samples'): the browser decodes audio itself",
    ),
    Kind("Identity", _EXTENSIONS, _PLAIN, ("Identity",)),
    Kind("ReverseAxis", _EXTENSIONS, _PLAIN, ("Split", "Concat")),
    Kind("Split", _EXTENSIONS, _PLAIN, ("Split", "Constant")),
    Kind("Squeeze", _EXTENSIONS, _PLAIN, ("Squeeze", "Constant")),
    Kind("Unsqueeze", _EXTENSIONS, _PLAIN, ("Unsqueeze", "Constant")),
    Kind("Transpose", _EXTENSIONS, _PLAIN, ("Transpose",)),
    Kind("ChannelsLastToChannelsFirst", _EXTENSIONS, _PLAIN, ("Transpose",)),
    Kind("Softmax", _EXTENSIONS, _COUNTED, ("Softmax",)),
    Kind("ArgMax", _EXTENSIONS, _COUNTED, ("ArgMax",)),
    Kind(
        "Resize",
        _EXTENSIONS,
        _PIXELS,
        (
            "Shape",
            "Split",
            "Concat",
            "Cast",
            "Div",
            "Mul",
            "Round",
            "ReduceMax",
            "ReduceMin",
            "Unsqueeze",
            "Resize",
            "Squeeze",
            "Constant",
        ),
    ),
    Kind("CenterCrop", _EXTENSIONS, _PIXELS, ("Shape", "Gather", "Sub", "Div", "Add", "Slice", "Constant")),
    Kind("LetterBox", _EXTENSIONS, _PIXELS, ("Shape", "Split", "Concat", "Sub", "Div", "Pad", "Constant")),
    Kind("Normalize", _EXTENSIONS, _PIXELS, ("Cast", "Sub", "Div", "Constant")),
    Kind("ImageBytesToFloat", _EXTENSIONS, _PIXELS, ("Cast", "Identity", "Mul", "Constant")),
    Kind("FloatToImageBytes", _EXTENSIONS, _PIXELS, ("Mul", "Round", "Clip", "Cast", "Constant")),
    Kind(
        "PixelsToYCbCr",
        _EXTENSIONS,
        _PIXELS,
        ("Cast", "MatMul", "Add", "Round", "Clip", "Split", "Squeeze", "Constant"),
    ),
    Kind(
        "YCbCrToPixels",
        _EXTENSIONS,
        _PIXELS,
        ("Unsqueeze", "Concat", "Cast", "Sub", "MatMul", "Round", "Clip", "Constant"),
    ),
    Kind("SplitOutBoxAndScoreWithConf", _EXTENSIONS, _BOXES, ("Split", "Mul", "Identity", "Constant")),
    Kind(
        "SelectBestBoundingBoxesByNMS",
        _EXTENSIONS,
        _BOXES,
        (
            "Identity",
            "Transpose",
            "Unsqueeze",
            "NonMaxSuppression",
            "Gather",
            "Cast",
            "Squeeze",
            "GatherND",
            "Concat",
            "Shape",
            "Less",
            "Where",
            "Greater",
            "If",
            "TopK",
            "Unique",
            "Constant",
        ),
    ),
    Kind(
        "ScaleNMSBoundingBoxesAndKeyPoints",
        _EXTENSIONS,
        _BOXES,
        ("Split", "Shape", "Concat", "Cast", "Div", "Sub", "Mul", "Reshape", "Gather", "Identity", "Constant"),
    ),
    Kind(
        "ResizeImage",
        _VISION,
        _PIXELS,
        (
            "Shape",
            "Gather",
            "Mul",
            "Div",
            "Min",
            "Cast",
            "ReduceMin",
            "Round",
            "Concat",
            "Unsqueeze",
            "Resize",
            "Squeeze",
            "Constant",
        ),
    ),
    Kind("ToGray", _VISION, _PIXELS, ("Cast", "Mul", "ReduceSum", "Add", "BitShift", "Constant")),
    Kind("NormalizeChannels", _VISION, _PIXELS, ("Sub", "Div", "Constant")),
    Kind("ResizeScores", _VISION, _PIXELS, ("Shape", "Slice", "Gather", "Concat", "Resize", "Constant")),
    Kind("LabelMap", _VISION, _PIXELS, ("ArgMax", "Cast", "Squeeze", "Constant")),
    Kind("TopK", _SCORES, _COUNTED, ("TopK", "Constant")),
    Kind("Labels", _SCORES, _COUNTED, ("Gather", "Constant")),
    Kind("Sigmoid", _SCORES, _COUNTED, ("Sigmoid",)),
    Kind("MeanPool", _TEXT, _WORDS, ("Cast", "Unsqueeze", "Mul", "ReduceSum", "Clip", "Div", "Constant")),
    Kind("FirstToken", _TEXT, _WORDS, ("Gather", "Constant")),
    Kind("UnitLength", _TEXT, _WORDS, ("ReduceL2", "Clip", "Div", "Constant")),
    Kind("AnswerSpan", _TEXT, _WORDS, ("ArgMax",)),
    Kind("UnitVariance", _SPEECH, _SOUND, ("ReduceMean", "Sub", "Mul", "Add", "Sqrt", "Div", "Unsqueeze", "Constant")),
    Kind(
        "LogMel",
        _SPEECH,
        _SOUND,
        (
            "Shape",
            "Sub",
            "Max",
            "Min",
            "Pad",
            "Slice",
            "Unsqueeze",
            "STFT",
            "Mul",
            "ReduceSum",
            "MatMul",
            "Transpose",
            "Clip",
            "Log",
            "Div",
            "ReduceMax",
            "Add",
            "Constant",
        ),
    ),
    Kind(
        "GreedyCtc",
        _SPEECH,
        _SOUND,
        ("ArgMax", "Squeeze", "Slice", "Concat", "Equal", "Not", "And", "Compress", "Constant"),
    ),
)

KINDS = {kind.name: kind for kind in _KINDS}
"""Steps by the name of their class."""


def snake_case(name: str) -> str:
    """What the counterpart of a step is called: ``ConvertImageToBGR`` is ``convert_image_to_bgr``."""
    words = ""
    for place, letter in enumerate(name):
        after_small = place > 0 and name[place - 1].islower()
        before_small = 0 < place < len(name) - 1 and name[place + 1].islower() and name[place - 1] != "_"
        words += ("_" if letter.isupper() and (after_small or before_small) else "") + letter.lower()
    return words
