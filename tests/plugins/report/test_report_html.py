from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import sample_outcome as sample

import optim_plugins.report
from optim._engine.reports.build import build_report
from optim._engine.search.state import StepStatus
from optim_plugins.report.page import _named_as_in, render_html

VOID = {"meta", "br", "col", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """Text, tags and folded parts of a page; fails on tags that are not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def groups(self) -> list[bool]:
        """Whether each group of steps is shown without a click."""
        return ["open" in attrs for tag, attrs in self.tags if tag == "details" and attrs.get("class") == "group"]


def page(outcome) -> Page:
    return Page(render_html(build_report(outcome)))


def test_the_verdict_is_on_top_in_plain_words():
    found = page(sample.improved())
    heading = found.text.index("2.3 times faster (ratio 0.43, 95 % interval 0.42 to 0.44), 1.5 times smaller")
    assert heading < found.text.index("Steps")
    assert [attrs["class"] for tag, attrs in found.tags if tag == "span" and "pill" in (attrs.get("class") or "")] == [
        "pill improved"
    ]


def test_a_pass_that_broke_is_on_top_with_its_package():
    page = render_html(build_report(sample.with_broken_pass(sample.unchanged())))
    top = page.partition("</header>")[0]
    assert "error[pass-broke]: acme.fuse-all broke 2 times" in top
    assert "from:  acme-passes 1.2" in top
    assert "pass-broke" not in render_html(build_report(sample.unchanged()))


def test_every_step_is_there_with_its_reason_and_figures():
    text = page(sample.improved()).text
    for attempt in sample.attempts():
        assert attempt.step.pass_name in text
        assert attempt.reason in text
    for title in ("Kept (2)", "Failed (1)", "Dropped (2)", "Not applicable (1)", "Skipped (1)"):
        assert title in text
    assert "infinite" in text


def test_what_counts_is_open_and_long_lists_are_folded():
    assert page(sample.improved()).groups() == [True, True, True, False, False]
    dropped = [replace(sample.attempts()[1], behind=((str(n), "[]"),), status=StepStatus.DROPPED) for n in range(9)]
    assert page(sample.improved(attempts=dropped)).groups() == [False]


def test_operators_outputs_shapes_machine_and_feeds_are_there():
    text = page(sample.improved()).text
    assert re.search(r"MatMulInteger 0 36 \+36", text)
    assert re.search(r"MatMul 36 0 -36", text)
    assert "2 other operators" in text
    assert "embeddings float32 1×384 0.15 0.06 0.989000 16.5 dB 2e+06" in text  # noqa: RUF001
    assert "input_ids 1x32 4 ms 1.72 ms 0.43 0.42 to 0.44" in text
    assert "token ids below 30522" in text
    assert "onnxruntime 1.31.1" in text
    assert 'optim.load("DIR")' in text
    assert "import onnxruntime as ort" in text


def test_outputs_name_the_worst_slice_and_sample_what_differs_and_what_was_not_judged():
    outcome = sample.improved()
    outcome.result = sample.compared_as(outcome.result, *sample.misplaced())
    text = render_html(build_report(outcome))
    assert "output &#39;logits&#39;, column 3</div>" in text
    assert '<td class="small">column 3, sample 4</td>' in text
    for words in ("top 1 stays in 97 % of rows", "1.3 % differ", "not judged: it is one number on all samples"):
        assert f'<div class="small">{words}</div>' in text


def test_the_page_needs_no_network_and_runs_no_script():
    html = render_html(build_report(sample.improved()))
    assert not re.search(r"https?:|//[a-z]|@import|url\(|<script|<link|<img|<iframe", html)


def test_words_of_models_and_plugins_are_never_markup():
    outcome = sample.improved(versions={"<script>alert(1)</script>": "<i>"})
    outcome.result = sample.compared_as(outcome.result, replace(sample.compared(), name="<script>"))
    outcome.settings = replace(outcome.settings, source=Path('"><script>.onnx'))
    html = render_html(build_report(outcome))
    assert "<script" not in html
    assert "<b>IndexError" not in html
    assert "&lt;b&gt;IndexError&lt;/b&gt;" in html


@pytest.mark.parametrize("make", [sample.improved, sample.unchanged, sample.budget_missed])
def test_every_kind_of_verdict_makes_a_whole_page(make):
    found = page(make())
    assert build_report(make()).status in found.text


def test_a_run_that_delivers_nothing_does_not_say_how_to_load_it():
    text = page(sample.budget_missed()).text
    assert "ort.quantize-dynamic was asked for, but it failed" in text
    assert "Load the result" not in text


def test_an_unchanged_result_has_the_operators_of_the_original():
    text = page(sample.unchanged()).text
    assert "No candidate is better than the original; the original is delivered unchanged." in text
    assert "The graph has the same operators as the original." in text


def test_a_run_without_steps_says_so():
    assert "No pass was tried." in page(sample.improved(attempts=[])).text


def test_it_follows_the_readers_light_or_dark_scheme_and_fits_a_phone():
    html = render_html(build_report(sample.improved()))
    assert "prefers-color-scheme: dark" in html
    assert 'name="viewport" content="width=device-width' in html
    colours = re.findall(r"var\((--\w+)\)", html)
    defined = set(re.findall(r"(--\w+):", html))
    assert set(colours) == defined


def test_on_paper_what_is_folded_is_open_nothing_is_cut_and_headings_of_columns_return_on_each_page():
    html = render_html(build_report(sample.improved()))
    paper = html.partition("@media print {")[2].partition("\n}")[0]
    rules = {names.strip(): rule for names, rule in re.findall(r"([^{};]+?) \{ ([^}]+?);? \}", paper)}
    assert rules["thead"] == "display: table-header-group"
    assert "overflow: visible" in rules[".scroll"]
    assert "content-visibility: visible" in rules[".group::details-content"]
    unbroken = next(rule for rule in rules if rules[rule] == "break-inside: avoid")
    assert {"tr", ".figure", ".plot"} <= set(unbroken.split(", "))


def test_the_template_lies_in_the_package():
    assert (Path(optim_plugins.report.__file__).parent / "report.html.j2").is_file()


def drawn(report):
    """The drawings of a page, each parsed as XML: what is not well-formed raises."""
    import xml.etree.ElementTree as ElementTree

    return [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", render_html(report), re.DOTALL)]


def words_of(drawing):
    return [element.text for element in drawing.iter("text")]


def test_the_plots_show_every_point_the_intervals_and_the_steps():
    measured, _, latency, _, steps, *_ = drawn(build_report(sample.improved()))
    assert len(list(measured.iter("circle"))) == 1 + 3
    assert {"1", "2", "original", "budget 0.17"} <= set(words_of(measured))
    assert "4.73 ms" in words_of(latency)
    assert len([one for one in latency.iter("line") if one.get("class") == "won"]) == 3
    assert {"original", "+ ort.quantize-dynamic", "+ ort.tune-session", "60 MB", "0.43"} <= set(words_of(steps))


def test_the_drawings_need_no_network_and_escape_what_a_plugin_calls_itself():
    outcome = sample.improved()
    evil = replace(sample.FUSE, pass_name='acme.<script>"&')
    point = outcome.points[1]
    candidate = replace(point.candidate, steps=(evil,))
    outcome.points[1] = replace(point, candidate=candidate)
    page = render_html(build_report(outcome))
    assert "<script>" not in page
    assert drawn(build_report(outcome))
    for one in re.findall(r"(?:href|src|url)\s*[=(]\s*['\"]?([^'\")\s]+)", page):
        assert not one.startswith(("http:", "https:", "//"))


def test_on_a_telephone_each_plot_is_drawn_for_its_width_and_nothing_lies_outside():
    found = [one for one in drawn(build_report(sample.improved())) if {"wide", "slim"} & set(one.get("class").split())]
    for wide, slim in zip(found[::2], found[1::2], strict=True):
        assert wide.get("class") == "plot wide" and slim.get("class") == "plot slim"
        width = float(slim.get("viewBox").split()[2])
        assert width < 400 - 2 * 14  # what the page leaves of 400 px
        assert sorted(words_of(wide)) == sorted(words_of(slim))  # the same names and figures, elsewhere
        for element in slim.iter():
            for at in ("x", "cx", "x1", "x2"):
                assert 0 <= float(element.get(at, 0)) <= width
        for bar in slim.iter("rect"):
            assert float(bar.get("x")) + float(bar.get("width")) <= width
    html = render_html(build_report(sample.improved()))
    assert "min-width: 640px" not in html
    assert (
        "@media screen and (max-width: 680px) { .plot.wide { display: none; } .plot.slim { display: block; } }" in html
    )


@pytest.mark.parametrize(
    ("figures", "rows"), [(1, [6]), (2, [3, 3]), (3, [2, 2, 2]), (4, [3] * 4), (5, [2, 2, 2, 3, 3])]
)
def test_no_card_stands_alone_in_its_row(figures, rows):
    """The rules of the page, read as a browser reads them: which cards span how many of the six columns."""
    html = render_html(build_report(sample.improved()))
    spans = []
    for place in range(1, figures + 1):
        span = 2
        for selector, columns in re.findall(r"^(\.figure\b[^{]*) { grid-column: span (\d); }$", html, re.MULTILINE):
            if any(selects(one.strip(), place, figures) for one in selector.split(",")):
                span = int(columns)
        spans.append(span)
    assert spans == rows
    assert sum(spans) % 6 == 0


def selects(selector: str, place: int, count: int) -> bool:
    """Whether a selector of the cards takes the one at a place, of so many."""
    first, _, follows = selector.partition(" ~ ")
    if follows:
        return any(selects(first, before, count) for before in range(1, place))
    last = re.search(r"nth-last-child\((\d)\)", first)
    return (
        (":only-child" not in first or count == 1)
        and (":nth-child(3n+1)" not in first or place % 3 == 1)
        and (last is None or count - place + 1 == int(last[1]))
    )


def test_what_could_not_run_here_is_no_row_and_named_once():
    nowhere = replace(sample.attempts()[-1], reason="it only runs if --with names it", not_here=True)
    found = page(sample.improved(attempts=[*sample.attempts()[:-1], nowhere, replace(nowhere, behind=(("x", "[]"),))]))
    assert "Skipped" not in found.text
    assert found.text.count("it only runs if --with names it") == 1
    assert "Not tried on this machine it only runs if --with names it ort.tune-session" in found.text


def test_what_was_declined_for_the_same_reason_on_several_chains_is_one_row():
    declined = next(one for one in sample.attempts() if one.status is StepStatus.NOT_APPLICABLE)
    text = page(
        sample.improved(attempts=[declined, *(replace(declined, behind=((name, "[]"),)) for name in ("a.b", "c.d"))])
    ).text
    assert "Not applicable (1)" in text
    assert "on 3 models" in text


def test_the_page_of_a_target_tells_how_to_look_at_it():
    web = replace(sample.CPU, name="web", viewer="optim web serve DIR")
    assert "optim web serve DIR" in page(sample.improved(target=web, loader=False)).text


def test_where_nothing_was_timed_there_is_no_plot():
    assert drawn(build_report(sample.budget_missed())) == []


def test_other_compromises_are_listed_with_what_picks_them():
    page = render_html(build_report(sample.improved()))
    assert "optim pick DIR 2" in page
    assert "ort.fuse-transformer (with=onnxscript)" in page


def test_what_is_to_blame_for_a_wrong_step_is_told_and_drawn():
    found = page(sample.improved())
    assert "Nodes to blame in ort.quantize-dynamic" in found.text
    for words in ("down_node (MatMul)", "3 of 96 elements became NaN", "one value is not compared", "17 others"):
        assert words in found.text
    drawings = {attrs.get("aria-label"): attrs["class"] for tag, attrs in found.tags if tag == "svg"}
    assert {"error of each value in graph order", "values of down in both models"} < set(drawings)
    assert "graph" in drawings["the graph around the blamed nodes"]
    boxes = [attrs["class"] for tag, attrs in found.tags if tag == "rect" and "box" in attrs["class"]]
    assert [kind.split()[1:] for kind in boxes] == [["end"], [], [], ["missed"], [], ["end"]]
    html = render_html(build_report(sample.improved()))
    assert "<i>head</i>" not in html
    without = [replace(one, blame=None) for one in sample.attempts()]
    assert "What is to blame" not in page(sample.improved(attempts=without)).text


def test_a_step_in_which_no_node_is_to_blame_shows_how_the_error_grows():
    one = next(attempt for attempt in sample.attempts() if attempt.blame is not None)
    honest = replace(one, blame=sample.step_blame(replace(sample.blamed(), blamed=())))
    found = page(sample.improved(attempts=[honest]))
    assert "no node is off by more than its precision explains" in found.text
    assert "blamed nodes are red" not in found.text
    drawings = {attrs.get("aria-label") for tag, attrs in found.tags if tag == "svg"}
    assert "error of each value in graph order" in drawings
    assert "the graph around the blamed nodes" not in drawings


def test_times_stand_beside_the_operators_of_the_graphs_though_the_runtime_leaves_out_their_domain():
    operators = {"com.microsoft:Attention": 1, "Gelu": 2, "com.microsoft:Gelu": 3}
    times = {"Attention": 1.0, "Gelu": 2.0, "FusedMatMul": 3.0}
    assert _named_as_in(operators, times) == {"com.microsoft:Attention": 1.0, "Gelu": 2.0, "FusedMatMul": 3.0}


def test_operators_have_their_time_before_and_after_where_it_was_looked_at():
    times = ({"MatMul": 8.0, "FusedMatMul": 1.5, "Gelu": 0.001}, {"MatMulInteger": 3.25})
    text = page(sample.improved(operator_ms=times)).text
    assert "Time before Time after" in text
    assert "MatMul 36 0 -36 8 ms" in text
    assert "FusedMatMul 0 0 1.5 ms" in text  # the runtime makes it when it opens the graph
    assert "MatMulInteger 0 36 +36 3.25 ms" in text
    assert "9.5 ms in all, 3.25 ms in the result" in text
    assert text.index("FusedMatMul") < text.index("2 other operators") < text.index("Gelu 6 6 0.001 ms")
    assert "Time before" not in page(sample.improved()).text
    report = build_report(sample.improved(operator_ms=times))
    assert (report.original.operator_ms, report.result.operator_ms) == times
    assert build_report(sample.improved(operator_ms=times[:1])).result.operator_ms == {}
