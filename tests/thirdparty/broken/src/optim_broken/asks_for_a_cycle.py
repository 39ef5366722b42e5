from optim import hookimpl
from optim_broken.stock import make

OPTIM_HOOK_API = 1


@hookimpl
def optim_convert_precision(target):
    first = make("broken-cycle.first", before=("broken-cycle.second",))
    return (first, make("broken-cycle.second", before=("broken-cycle.first",)))
