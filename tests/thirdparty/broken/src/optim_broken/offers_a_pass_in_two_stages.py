from optim import hookimpl
from optim_broken.stock import make

OPTIM_HOOK_API = 1
Twice = make("broken-twice.twice")


@hookimpl
def optim_fuse(target):
    return (Twice,)


@hookimpl
def optim_quantize(target):
    return (Twice,)
