"""Drawings of graphs: boxes do not overlap, arrows go down, and a file of its own needs no page."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from optim_plugins.diagnose.blame.plots import growth_plot, histogram_plot
from optim_plugins.diagnose.graphs.drawing import Box, graph_drawing
from optim_plugins.drawing import standalone

SPACE = "{http://www.w3.org/2000/svg}"


def box(name: str, *reads: str) -> Box:
    return Box("Add", name, "", "", reads, (name,))


def rectangles(drawing: str) -> dict[str, tuple[float, float]]:
    """Left and top of each box, by name."""
    root = ElementTree.fromstring(drawing)
    found = {}
    for group in root.iter("g"):
        rect = next(iter(group.iter("rect")))
        found[group[0].text.split("\n")[0].removeprefix("Add ")] = float(rect.get("x")), float(rect.get("y"))
    return found


def test_every_node_stands_below_what_it_reads_and_beside_no_other():
    boxes = [
        box("a"),
        box("b", "a"),
        box("c", "a"),
        box("d", "b", "c"),
        box("e", "a", "d"),
        box("alone"),
        box("f", "e"),
    ]
    found = rectangles(graph_drawing(boxes, "a graph"))
    assert set(found) == {one.name for one in boxes}
    for one in boxes:
        assert all(found[name][1] < found[one.name][1] for name in one.reads)
    for one in boxes:
        beside = [name for name, (_, top) in found.items() if top == found[one.name][1] and name != one.name]
        assert all(abs(found[name][0] - found[one.name][0]) >= 200 for name in beside)


def test_an_arrow_over_several_layers_passes_beside_the_boxes_between():
    drawing = graph_drawing([box("a"), box("b", "a"), box("c", "b"), box("d", "a", "c")], "a graph")
    left, right = rectangles(drawing)["b"][0], rectangles(drawing)["b"][0] + 200
    passing = [path.get("d") for path in ElementTree.fromstring(drawing).iter("path") if " V" in path.get("d")]
    places = [float(path.split()[0].removeprefix("M")) for path in passing]
    assert len(places) == 2
    assert all(x < left or x > right for x in places)


@pytest.mark.parametrize("boxes", [[], [box("<&>")]])
def test_a_file_of_its_own_is_well_formed_and_has_its_colours(boxes):
    text = standalone(graph_drawing(boxes, "a <graph>"))
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SPACE}svg"
    assert "var(" not in text
    assert "@media" not in text


def test_growth_of_many_values_keeps_the_worst_of_each_stretch_and_what_is_marked():
    growth = [(f"v{i}", 1e-7) for i in range(3000)]
    growth[1234], growth[2000] = ("peak", 0.5), ("lost", None)
    drawn = ElementTree.fromstring(growth_plot(growth, {"v2501"}))
    dots = {circle[0].text.split(":")[0]: circle.get("class") for circle in drawn.iter("circle")}
    assert len(dots) < 450
    assert (dots["peak"], dots["lost"], dots["v2501"]) == ("mark", "base", "missed")
    assert growth_plot(growth[:1], set()) == ""


def test_a_histogram_of_nothing_is_no_drawing():
    assert histogram_plot("v", (), ((), ())) == ""
    assert histogram_plot("v", (0.0, 1.0), ((0,), (0,))) == ""
    assert len(list(ElementTree.fromstring(histogram_plot("v", (0.0, 1.0, 2.0), ((3, 1), (0, 4)))).iter("rect"))) == 1
