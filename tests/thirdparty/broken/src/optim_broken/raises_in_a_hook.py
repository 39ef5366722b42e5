from optim import hookimpl
from optim_broken.stock import make

OPTIM_HOOK_API = 1


@hookimpl
def optim_fuse(target):
    raise RuntimeError("the moon is full")


@hookimpl
def optim_tune(target):
    return (make("broken-raise.still-there"),)
