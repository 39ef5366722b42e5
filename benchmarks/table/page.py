"""RESULTS.md, the README's table and the pictures, all made from results/ and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pictures import THEMES, bars, scatter
from plan import DEFAULT, HERE, LOSSLESS, MODELS, RANDOM, README, RESULTS, ROOT, TRAINED, class_folder
from plan import effort as effort_of
from rows import Loss, Result, Row, beyond, losses, results

PAGE, TABLE = HERE / "RESULTS.md", HERE / "readme_table.md"
PICTURES = ROOT / "docs" / "pictures"
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
NOT_TAKEN = "not taken"


def write_pages() -> None:
    """Write them all; README.md only between its two marks."""
    found = results()
    PAGE.write_text(page(found), encoding="utf-8")
    TABLE.write_text(readme_table(found), encoding="utf-8")
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    if BEGIN in text and END in text:
        before, _, rest = text.partition(BEGIN)
        readme.write_text(f"{before}{BEGIN}\n{readme_table(found)}{END}{rest.partition(END)[2]}", encoding="utf-8")
    for name, one in found.items():
        if shown := [result for result in one if result.model.name in README]:
            for theme, colours in THEMES.items():
                if name == shown_class(found):
                    (PICTURES / f"readme-bars-{theme}.svg").write_text(bars(shown, colours), encoding="utf-8")
        for kind, title in ((TRAINED, "trained"), (RANDOM, "random")):
            if drawn := [result for result in one if result.model.weights == kind]:
                path = HERE / picture_name(name, title)
                path.write_text(scatter(drawn, THEMES["light"]), encoding="utf-8")
    print(f"wrote {PAGE.name}, {TABLE.name} and the pictures")


def picture_name(processors: str, title: str) -> str:
    """Of the scatter."""
    return f"speed-against-drift-{title}-{class_folder(processors)}.svg"


def shown_class(found: dict[str, list[Result]]) -> str:
    """The class of processors that README.md shows: the one with the most of its models, then the newest."""

    def order(name: str) -> tuple[int, str]:
        mine = [one for one in found[name] if one.model.name in README]
        return len(mine), max((str(one.kept["date"]) for one in mine), default="")

    return max(found, key=order, default="")


def readme_table(found: dict[str, list[Result]]) -> str:
    """The table of README.md."""
    name = shown_class(found)
    known = {one.model.name: one for one in found.get(name, [])}
    lines = [
        f"| trained model | onnxruntime | optim | optim, `--target auto` | peer within drift {DEFAULT} | peer took |",
        "|---|---|---|---|---|---|",
    ]
    for model in README:
        if model not in known:
            lines.append(f"| {MODELS[model].title} | {NOT_TAKEN} | | | | |")
            continue
        one = known[model]
        cpu, auto, best = one.of_optim(DEFAULT, "cpu"), one.of_optim(DEFAULT, "auto"), one.best_peer(DEFAULT)
        peer = f"{interval(best)}, {best.name}" if best else "none is faster than onnxruntime"
        cells = [one.model.title, f"{one.milliseconds:.3g} ms", ours(cpu), ours(auto), peer, effort(best)]
        lines.append("| " + " | ".join(cells) + " |")
    if not known:
        return "\n".join(lines) + "\n"
    first = next(iter(known.values())).kept
    again = effort_of("readme", MODELS[README[0]])
    runs = [one.of_optim(DEFAULT, target) for one in known.values() for target in ("cpu", "auto")]
    searched = {int(run.contender.get("search_s", again.search_s)) for run in runs if run is not None}
    tried = {effort_of(one.kept["part"], one.model).tool_s for one in known.values()}
    given = [" or ".join(map(str, sorted(those))) for those in (searched, tried)]
    times = f"A run of optim was given {given[0]} s, each peer {given[1]} s."
    if (searched, tried) != ({again.search_s}, {again.tool_s}):
        times += f" The command gives {again.search_s} and {again.tool_s} s."
    if any(map(is_old, known.values())):
        times += f" To be taken again: {_OLD_RACE}."
    return "\n".join(lines) + f"\n\n{name}; {first['date']}; `make bench BENCH=readme`. {_UNDER_README} {times}\n"


_OLD_RACE = (
    "between runs on onnxruntime only optim's threads stayed awake, and slowed the turn after theirs by up to 38 %. "
    "Ratios may be off, and intervals are too wide"
)
_UNDER_README = (
    "Ratios are latency to that of onnxruntime's default, with a 95 % interval: 0.5 is twice as fast. If the interval "
    "reaches 1, this table does not prove a gain. Drift is that of the worst of eight samples that no tool saw. "
    "Seconds are what the tool took."
)


def ours(row: Row | None) -> str:
    """Ratio, drift and cost of a row of optim."""
    if row is None:
        return NOT_TAKEN
    if row.ratio is None:
        return str(row.contender["error"])
    status = "" if row.contender["status"] == "improved" else f"{row.contender['status']}: "
    beyond_it = ", beyond the limit" if row.drift > float(DEFAULT) else ""
    return f"{status}{interval(row)}, drift {row.drift:.2g}{beyond_it}, {seconds(row)}"


def ratio_of(row: Row | None) -> str:
    """A ratio; empty where there is none."""
    return f"{row.ratio:.2f}" if row is not None and row.ratio is not None else ""


def seconds(row: Row | None) -> str:
    """What making it took."""
    return "" if row is None else f"{row.contender['seconds']:.0f} s"


def effort(row: Row | None) -> str:
    """Seconds of the setting that is shown, and how many settings it is the best of."""
    if row is None:
        return ""
    return seconds(row) + (f", best of {row.tries[1]} settings" if row.tries[1] > 1 else "")


def page(found: dict[str, list[Result]]) -> str:
    """RESULTS.md."""
    everything = [one for each in found.values() for one in each]
    parts = [_INTRODUCTION, "## Where optim loses\n", *lost(everything)]
    for kind, title in ((TRAINED, "Trained models"), (RANDOM, "Architectures with random weights")):
        parts.append(f"\n## {title}\n\n{_ABOUT[kind]}")
        parts += [
            section(name, [one for one in each if one.model.weights == kind], kind) for name, each in found.items()
        ]
        if not found:
            parts += ["Not taken on any processor so far.\n"]
    return "\n".join(parts).rstrip() + "\n"


def lost(everything: Sequence[Result]) -> list[str]:
    """Every row in which a peer is ahead, and every result of optim beyond its budget on the judging samples."""
    if not everything:
        return ["Not taken."]
    found, asked = losses(everything), sum(row.is_optim for one in everything for row in one.rows)
    lines = [
        "Every budget in which a peer that keeps it has a lower median than optim. Clearly: the intervals are apart. "
        f"A peer is ahead of {len(found)} of {asked} runs of optim, of {sum(one.is_clear for one in found)} clearly. "
        "Target `cpu` is onnxruntime; only `auto` may deliver for OpenVINO."
    ]
    for name in dict.fromkeys(one.kept["class"] for one in everything):
        here = [one for one in found if one.result.kept["class"] == name]
        lines += [f"\n**{name}**\n", *([_LOST, "|---" * _LOST.count(" |") + "|"] if here else ["None."])]
        lines += map(loss_line, sorted(here, key=lambda one: not one.is_clear))
    wrong = [
        f"- {one.kept['class']}, {one.model.title}, {row.contender['setting']}: "
        f"drift {row.drift:.3g} at {row.contender['where']}"
        for one, row in beyond(everything)
    ]
    nothing = ["None."]
    return [*lines, "\nResults of optim that break their own budget on the judging samples:\n", *(wrong or nothing)]


_LOST = "| model | budget | target of optim | optim | peer | its ratio | clearly |"


def loss_line(one: Loss) -> str:
    """A row of the table of losses."""
    ours_here = interval(one.ours) if one.ours.ratio is not None else str(one.ours.contender["error"])
    if one.ours.ratio is not None and not one.result.keeps(one.ours, one.budget):
        ours_here += f", drift {one.ours.drift:.2g} is beyond"
    cells = [one.result.model.title, one.budget, one.target, ours_here, one.peer.name]
    return "| " + " | ".join([*cells, interval(one.peer), "yes" if one.is_clear else "no"]) + " |"


def interval(row: Row) -> str:
    """Ratio with its interval."""
    return f"{ratio_of(row)} ({row.low:.2f} to {row.high:.2f})" if row.ratio is not None else ""


def section(name: str, taken: list[Result], kind: str) -> str:
    """One class of processors; ``remark.txt`` beside its results says what a reader must know of them."""
    left = [m.title for m in MODELS.values() if m.weights == kind and m.name not in {one.model.name for one in taken}]
    parts, remark = [f"### {name}\n"], RESULTS / class_folder(name) / "remark.txt"
    if taken:
        parts += [remark.read_text()] if remark.exists() else []
        picture = picture_name(name, "trained" if kind == TRAINED else "random")
        parts += [f"{taken[0].kept['machine']}.\n", f"![speed against drift]({picture})\n", *summary(taken), ""]
    parts += [f"Not taken: {'; '.join(left)}.\n"] if left else []
    return "\n".join([*parts, *(detail(one) for one in taken)])


def summary(taken: Sequence[Result]) -> list[str]:
    """For each model and budget optim beside the best peer."""
    lines = [
        "| model | budget | optim | drift | took | `--target auto` | drift | best peer | ratio | drift | took |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in taken:
        for budget in one.model.budgets:
            cpu, auto, best = one.of_optim(budget, "cpu"), one.of_optim(budget, "auto"), one.best_peer(budget)
            mine = [interval_or_reason(cpu), drift_of(cpu), seconds(cpu), interval_or_reason(auto), drift_of(auto)]
            peer = [best.name, interval(best), drift_of(best), effort(best)] if best else ["none is faster", "", "", ""]
            lines.append("| " + " | ".join([one.model.title, budget, *mine, *peer]) + " |")
    return lines


def interval_or_reason(row: Row | None) -> str:
    """Ratio with its interval, or why there is none."""
    if row is None:
        return NOT_TAKEN
    return interval(row) if row.ratio is not None else str(row.contender.get("error", NOT_TAKEN))


def drift_of(row: Row | None) -> str:
    """Drift of the worst judging sample."""
    return "" if row is None or row.ratio is None else f"{row.drift:.2g}"


def detail(one: Result) -> str:
    """All of a model: what was raced, what was not, and why."""
    kept = one.kept
    samples = ", ".join(f"{known['samples']} for {name}" for name, known in kept["samples"].items())
    lines = [
        f"#### {one.model.title}\n",
        f"{one.model.weights}; timed: {one.model.timed}, {one.milliseconds:.3g} ms by onnxruntime's default. "
        f"Samples: {samples}. {kept['date']}, {races(one)}. {', '.join(kept['versions'])}{commits(one)}. "
        f"`make bench BENCH='{kept['part']} --only {one.model.name}'`\n",
        "| tool | ratio | 95 % | drift | worst at | size | answers | made in | settings that worked |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in one.rows:
        if row.ratio is None:
            continue
        told = row.contender
        cells = [row.name, ratio_of(row), f"{row.low:.2f} to {row.high:.2f}", f"{row.drift:.2g}", str(told["where"])]
        size = f"{told['size']:.2f}" if "size" in told else ""
        tries = "" if row.is_optim else f"{row.tries[0]} of {row.tries[1]}"
        lines.append("| " + " | ".join([*cells, size, told.get("answers", ""), seconds(row), tries]) + " |")
    return "\n".join([*lines, "", *without_time(one), ""])


def commits(one: Result) -> str:
    """Returns the commits of optim that the results name."""
    found = {str(row.contender["commit"]) for row in one.rows if row.contender.get("commit")}
    return f" (commit {', '.join(sorted(found))})" if found else ""


def races(one: Result) -> str:
    """How it was timed."""
    kept = one.kept["races"]
    rounds = len(next(iter(kept[0]["rounds_ms"].values()))) if kept else 0
    if is_old(one):
        return f"{len(kept)} races of {rounds} rounds, to be taken again ({_OLD_RACE})"
    busy = ", ".join(f"{100 * race['others']:.1f} %" for race in kept)
    return f"{len(kept)} races of {rounds} rounds; other programs took {busy} of the processors meanwhile"


def is_old(one: Result) -> bool:
    """Whether a race is of before each turn began after a rest."""
    return any("others" not in race for race in one.kept["races"])


def without_time(one: Result) -> list[str]:
    """What changed nothing, what failed, and tools that were not taken."""
    from families import FAMILIES

    reasons: dict[tuple[str, str], list[str]] = {}
    for row in one.rows:
        told = row.contender
        said = "changed nothing" if told.get("unchanged") else f"`{told['error']}`" if "error" in told else ""
        if said:
            reasons.setdefault((told["label"], said), []).append(told["setting"])
    lines = [f"- {label}: {said} ({'; '.join(settings)})" for (label, said), settings in reasons.items()]
    raced_errors = {key: said for race in one.kept["races"] for key, said in race["errors"].items()}
    lines += [f"- {key.replace('|', ': ')}: it did not open in a race: `{said}`" for key, said in raced_errors.items()]
    tools = {row.contender["tool"] for row in one.rows}
    lines += [f"- {family.label}: {NOT_TAKEN}" for name, family in FAMILIES.items() if name not in tools]
    slower = [
        row
        for row in one.rows
        if row.ratio is None and "error" not in row.contender and not row.contender.get("unchanged")
    ]
    if slower:
        lines.append(
            f"- {len(slower)} more settings worked, and were slower than those of the table within every budget."
        )
    return ["Without a time:\n", *lines] if lines else []


_ABOUT = {
    TRAINED: "Models as their makers ship them, in wheels; the decoder alone is trained here, by a fixed seed, on text "
    "that Python ships.\n",
    RANDOM: "**Random weights**, seeded: the graphs of these architectures, not the models of these names. Every 100th "
    "weight of the transformers' layer normalizations is four times as large, as trained transformers have outlier "
    "channels. Drift of random weights says little about trained ones.\n",
}

_INTRODUCTION = f"""# Results

Made by `make bench`, from the raw rounds in [results](results). [README.md](README.md) says how to repeat them.

- **Ratio**: latency to that of onnxruntime's default on the original, in processes of their own and in turns, with a
  95 % interval that covers all races; below 1 is faster.
- **Drift**: [optim's measure](../docs/what-drift-means.md), the same for all tools, of the worst judging sample. There
  are eight and more of these; a digest proves that none of them is a calibration sample.
- **Budgets**: the default {DEFAULT}, lossless, and one for each family of models, fixed before anything was measured.
- **Answers**: what the model's own library, or the task, answers with the result in place of the original.
- **Made in**: wall time of the tool, for the setting of the row. A peer's settings were tried in a small grid. The
  table shows its fastest within each budget, chosen on the judging samples: hindsight that optim does not have.
- **{LOSSLESS}** of a peer: a drift of 0.0001, or of optim's own lossless result if that is larger.
"""


def check_readme(text: str) -> str:
    """What stands between the marks of README.md."""
    return text.partition(BEGIN)[2].partition(END)[0].strip()


__all__ = ["BEGIN", "END", "Path", "check_readme", "page", "readme_table", "write_pages"]
