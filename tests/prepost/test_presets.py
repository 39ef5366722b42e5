"""Every preset: the composed model on raw input equals the model fed by Pillow, NumPy and tokenizers."""

from __future__ import annotations

import io

import numpy as np
import pytest
import task_models
from PIL import Image

from optim import OptimError
from optim_prepost.reference.compared_interface import raw

IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
PIXELS = 5e-3


def file_of(pixels, kind="PNG", **how):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **how)
    return np.frombuffer(stream.getvalue(), np.uint8)


def test_digits_from_the_bytes_of_a_png_to_their_name(compose, tmp_path):
    _, drift, run = compose(
        task_models.digits(tmp_path), preset="image-classification", labels=task_models.DIGIT_NAMES, top_k=2
    )
    assert drift.relative_error <= PIXELS
    right = 0
    for number in range(40):
        pixels, digit = task_models.digit_image(number)
        found = run(file_of(pixels))
        assert found["labels"][0, 0] == task_models.DIGIT_NAMES[found["indices"][0, 0]]
        assert found["scores"][0, 0] >= found["scores"][0, 1]
        right += found["indices"][0, 0] == digit
    assert right >= 36


def test_digits_from_pixels_to_their_number(compose, tmp_path):
    result, drift, run = compose(task_models.digits(tmp_path), preset="image-classification", input="pixels")
    assert drift.relative_error <= PIXELS
    assert "com.microsoft.extensions" not in result.model.opset
    pixels, digit = task_models.digit_image(3)
    assert run(pixels)["indices"].tolist() == [[digit]]


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("policy", ["exact", "shortest"])
def test_images_are_resized_and_normalized_as_by_pillow(compose, tmp_path, policy, interpolation):
    _, drift, _ = compose(
        task_models.classifier(tmp_path),
        preset="image-classification",
        resize=policy,
        size=(48,),
        interpolation=interpolation,
        **IMAGENET,
    )
    assert drift.relative_error <= PIXELS


def test_a_jpeg_is_decoded_like_pillow_decodes_it_within_what_two_decoders_differ(compose, tmp_path):
    from optim_prepost.reference.samples import picture

    _, _, run = compose(task_models.classifier(tmp_path), preset="image-classification", top_k=7, **IMAGENET)
    pixels = picture(201, 303, 5)
    for how, most in (({"quality": 95, "subsampling": 0}, 2e-3), ({"quality": 90}, 2e-2)):
        encoded = file_of(pixels, "JPEG", **how)
        with Image.open(io.BytesIO(encoded.tobytes())) as opened:
            again = file_of(np.asarray(opened.convert("RGB")))
        of_jpeg, of_png = run(encoded), run(again)
        order = np.argsort(of_jpeg["indices"]), np.argsort(of_png["indices"])
        a, b = (np.take_along_axis(found["scores"], o, -1) for found, o in zip((of_jpeg, of_png), order, strict=True))
        assert np.linalg.norm(a - b) / np.linalg.norm(b) <= most


def test_settings_of_a_hugging_face_folder_are_used(compose, tmp_path):
    folder = task_models.settings(
        tmp_path / "hf",
        preprocessor_config={
            "do_resize": True,
            "size": {"shortest_edge": 48},
            "resample": 3,
            "do_center_crop": True,
            "crop_size": {"height": 32, "width": 40},
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": [0.5, 0.4, 0.3],
            "image_std": [0.2, 0.3, 0.4],
        },
        config={"id2label": {str(number): f"class {number}" for number in range(7)}},
    )
    result, drift, run = compose(task_models.classifier(tmp_path), preset="image-classification", settings=str(folder))
    assert drift.relative_error <= PIXELS
    assert {"ResizeImage", "CenterCrop", "NormalizeChannels", "Labels"} <= set(result.counts)
    assert run(file_of(np.full((60, 50, 3), 128, np.uint8)))["labels"][0, 0].startswith("class ")


@pytest.mark.parametrize("columns", [False, True])
def test_objects_are_found_as_boxes_of_the_image_that_came_in(compose, tmp_path, columns):
    path = task_models.detector(tmp_path, columns=columns)
    _, drift, run = compose(path, preset="object-detection", score_threshold=0.1, max_detections=20)
    assert drift.relative_error <= PIXELS
    small, large = (run(file_of(np.full((edge, edge, 3), 150, np.uint8))) for edge in (64, 128))
    assert 0 < len(small["boxes"]) <= 20
    assert small["boxes"].shape[1] == 6
    np.testing.assert_allclose(large["boxes"][:, :4], 2 * small["boxes"][:, :4], rtol=1e-5)


def test_no_object_is_no_box(compose, tmp_path):
    _, run = compose(task_models.detector(tmp_path), prove=False, preset="object-detection", score_threshold=1.0)
    assert run(file_of(np.zeros((50, 70, 3), np.uint8)))["boxes"].shape == (0, 6)


def test_a_picture_is_cut_into_parts_of_its_own_size(compose, tmp_path):
    _, drift, run = compose(task_models.segmenter(tmp_path), preset="segmentation", **IMAGENET)
    assert drift.relative_error <= 0.05  # places on the border of two classes fall to either
    found = run(file_of(np.random.default_rng(0).integers(0, 256, (61, 47, 3), dtype=np.uint8)))["label_map"]
    assert (found.shape, found.dtype) == ((61, 47), np.uint8)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", ["bytes", "pixels"])
def test_a_picture_is_made_larger(compose, tmp_path, channels, kind):
    _, drift, run = compose(task_models.enlarger(tmp_path, channels=channels), preset="super-resolution", input=kind)
    assert drift.relative_error <= 1e-2
    given = np.full((90, 90, 3), (200, 100, 50), np.uint8)
    found = run(file_of(given) if kind == "bytes" else given)
    if kind == "bytes":
        with Image.open(io.BytesIO(found["image_file"].tobytes())) as opened:
            pixels = np.asarray(opened)
    else:
        pixels = found["pixels"]
    assert pixels.shape == (64, 80, 3)
    assert np.abs(pixels.astype(int).mean((0, 1)) - [190, 95, 47.5]).max() < 6


@pytest.mark.parametrize("pooling", ["mean", "first"])
@pytest.mark.parametrize("kind", ["text", "ids"])
def test_a_text_becomes_a_vector_of_length_one(compose, tmp_path, kind, pooling):
    _, drift, _ = compose(
        task_models.encoder(tmp_path),
        preset="text-embedding",
        input=kind,
        pooling=pooling,
        vocabulary=str(task_models.vocabulary(tmp_path)),
    )
    assert drift.relative_error <= 1e-5


def test_a_text_is_classified(compose, tmp_path):
    _, drift, run = compose(
        task_models.encoder(tmp_path, columns=3, kind="classes"),
        preset="text-classification",
        vocabulary=str(task_models.vocabulary(tmp_path)),
        labels=("good", "bad", "neither"),
        top_k=3,
    )
    assert drift.relative_error <= 1e-4
    found = run(np.array(["the warm stone wall"], dtype=object))
    assert sorted(found["labels"][0]) == ["bad", "good", "neither"]
    assert found["scores"].sum() == pytest.approx(1)


def test_a_question_is_answered_with_words_of_the_text(compose, tmp_path):
    _, drift, run = compose(
        task_models.encoder(tmp_path, columns=2, kind="answer"),
        preset="question-answering",
        vocabulary=str(task_models.vocabulary(tmp_path)),
    )
    assert drift.relative_error == 0
    assert run(np.array(["Who sleeps?", "A small cat sleeps."], dtype=object))["answer"].shape == (1,)


def test_for_the_web_the_places_of_the_answer_come_out(compose, tmp_path):
    _, drift, _ = compose(
        task_models.encoder(tmp_path, columns=2, kind="answer"),
        preset="question-answering",
        input="ids",
        vocabulary=str(task_models.vocabulary(tmp_path)),
    )
    assert drift.relative_error == 0


@pytest.mark.parametrize("kind", ["bytes", "samples"])
def test_sound_becomes_the_tokens_heard(compose, tmp_path, kind):
    _, drift, run = compose(task_models.listener(tmp_path), preset="speech", input=kind, labels=tuple("-abcdefgh"))
    assert drift.relative_error == 0
    if kind == "samples":
        found = run(np.random.default_rng(0).standard_normal(16000).astype(np.float32))
        assert 0 not in found["tokens"]
        assert [found for found, after in zip(found["tokens"], found["tokens"][1:], strict=False)]


@pytest.mark.parametrize("kind", ["bytes", "samples"])
def test_sound_becomes_whispers_features(compose, tmp_path, kind):
    _, drift, _ = compose(task_models.whisper_like(tmp_path), preset="speech", input=kind)
    assert drift.relative_error <= 1e-3


def test_the_proof_can_fail(compose, tmp_path, monkeypatch):
    from optim_prepost.reference import images

    right = images.normalize_channels

    def wrong(data, mean, std, name=None):
        return right(data, mean[::-1], std[::-1], name)

    monkeypatch.setattr(images, "normalize_channels", wrong)
    _, drift, _ = compose(task_models.classifier(tmp_path), preset="image-classification", top_k=7, **IMAGENET)
    assert drift.relative_error > PIXELS


def test_an_older_opset_is_raised_and_said(compose, tmp_path):
    result, drift, _ = compose(task_models.classifier(tmp_path, opset=12), preset="image-classification", **IMAGENET)
    assert drift.relative_error <= PIXELS
    assert result.model.opset[""] == 18
    assert any("raised from opset 12 to 18" in note for note in result.notes)


def test_a_newer_opset_stays(compose, tmp_path):
    result, drift, _ = compose(task_models.classifier(tmp_path, opset=21), preset="image-classification", **IMAGENET)
    assert drift.relative_error <= PIXELS
    assert result.model.opset[""] == 21


def test_names_of_the_model_that_are_those_of_steps_do_no_harm(compose, tmp_path):
    path = task_models.classifier(tmp_path, output="scores")
    _, drift, _ = compose(path, preset="image-classification", **IMAGENET)
    assert drift.relative_error <= PIXELS


def test_samples_of_the_user_are_used(compose, tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    Image.fromarray(task_models.digit_image(0)[0]).save(folder / "digit.png")
    result, drift, _ = compose(task_models.digits(tmp_path), preset="image-classification", samples=str(folder))
    assert drift.relative_error <= PIXELS
    assert len(raw(**result.interface.parameters)) == 1
    assert not any("made samples" in note for note in result.notes)


UNFIT = {
    "rank": (task_models.segmenter, {"preset": "image-classification"}, "it needs [1, classes]"),
    "channels": (
        lambda folder: task_models.classifier(folder, channels=4),
        {"preset": "image-classification"},
        "4 channels",
    ),
    "channels last": (
        task_models.classifier_of_channels_last,
        {"preset": "image-classification"},
        "--inputs-as-nchw pixel_values",
    ),
    "means": (task_models.digits, {"preset": "image-classification", **IMAGENET}, "1 channels"),
    "labels": (task_models.digits, {"preset": "image-classification", "labels": ("a",)}, "1 labels"),
    "top_k": (task_models.digits, {"preset": "image-classification", "top_k": 11}, "10 classes"),
    "no image": (task_models.listener, {"preset": "object-detection"}, "[batch, channels, height, width]"),
    "no text": (task_models.digits, {"preset": "text-embedding"}, "is none of input_ids"),
    "no vocabulary": (task_models.encoder, {"preset": "text-embedding"}, "needs a vocabulary"),
    "no sound": (task_models.encoder, {"preset": "speech"}, "it takes samples"),
    "small crop": (
        task_models.classifier,
        {"preset": "image-classification", "resize": "shortest", "size": (16,)},
        "less than",
    ),
    "input": (task_models.digits, {"preset": "image-classification", "input": "text"}, "bytes or pixels, not text"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_model_that_is_not_of_the_task_is_refused_with_the_reason(compose, tmp_path, case):
    make, options, reason = UNFIT[case]
    with pytest.raises(OptimError) as refused:
        compose(make(tmp_path), **options)
    assert refused.value.reference == "preset-does-not-fit"
    assert reason in refused.value.cause
