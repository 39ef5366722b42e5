"""Qualcomm chips by name: the number QNN calls them by, and the version of their Hexagon tensor processor (HTP).

Numbers are those of ``QnnTypes.h`` (``QNN_SOC_MODEL_*``) in Qualcomm's AI Engine Direct SDK.
"""

from __future__ import annotations

from dataclasses import dataclass

from optim.errors import unknown_name

FIRST_WITH_FLOAT16 = 69
"""HTP of this version and later computes float16; earlier ones integers only."""


@dataclass(frozen=True, slots=True)
class Soc:
    """A chip.

    Attributes:
        name: Qualcomm's name, in lower case.
        model: what the provider option ``soc_model`` takes.
        htp: version of its HTP.
        sold_as: what the shop calls it.
    """

    name: str
    model: int
    htp: int
    sold_as: str


SOCS = (
    Soc("sm8350", 30, 68, "Snapdragon 888"),
    Soc("sc8280x", 37, 68, "Snapdragon 8cx Gen 3"),
    Soc("sa8295", 39, 68, "Snapdragon Cockpit SA8295"),
    Soc("sm8450", 36, 69, "Snapdragon 8 Gen 1"),
    Soc("sm8475", 42, 69, "Snapdragon 8+ Gen 1"),
    Soc("sm8550", 43, 73, "Snapdragon 8 Gen 2"),
    Soc("sa8255", 52, 73, "Snapdragon Cockpit SA8255"),
    Soc("qcs9100", 77, 73, "Dragonwing QCS9100"),
    Soc("sc8380xp", 60, 73, "Snapdragon X Elite"),
    Soc("sm8650", 57, 75, "Snapdragon 8 Gen 3"),
    Soc("sm8750", 69, 79, "Snapdragon 8 Elite"),
    Soc("sm8850", 87, 81, "Snapdragon 8 Elite Gen 5"),
    Soc("sc8480xp", 88, 81, "Snapdragon X2 Elite"),
)

SIMULATED = SOCS[8]
"""What the simulator is told to be where nobody says: without a chip it computes floats in float32, as no HTP does."""


def find_soc(name: str) -> Soc:
    """A chip by Qualcomm's name or by its number.

    Raises:
        OptimError[unknown-soc]: lists the near ones.
    """
    for soc in SOCS:
        if name.lower() in (soc.name, str(soc.model)):
            return soc
    raise unknown_name("soc", name, (soc.name for soc in SOCS), fix="optim run MODEL --target qnn:soc=sc8380xp -o out")
