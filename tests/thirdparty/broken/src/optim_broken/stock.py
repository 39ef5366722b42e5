"""A pass that does nothing, to be offered wrongly."""

from optim import Applicable, Pass, PassResult


def make(name, **attributes):
    def applicable(self, model, target):
        return Applicable.no("it never does anything")

    def apply(self, model, options, context):
        return PassResult(model, False, ("it never does anything",))

    attributes |= {"name": name, "summary": "Does nothing.", "applicable": applicable, "apply": apply}
    return type("Stock", (Pass,), attributes)
