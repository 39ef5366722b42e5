from optim import Pass, hookimpl
from optim_broken.stock import make

OPTIM_HOOK_API = 1


class Unfinished(Pass):
    name = "broken-answer.unfinished"
    summary = "Cannot be made."


@hookimpl
def optim_fuse(target):
    return None


@hookimpl
def optim_quantize(target):
    mute = make("broken-answer.mute")
    mute.summary = ""
    return (mute, Unfinished, "a text", make("broken-answer.Shouting"))
