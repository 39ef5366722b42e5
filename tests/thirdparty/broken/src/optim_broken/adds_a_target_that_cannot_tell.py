from optim import Target, hookimpl

OPTIM_HOOK_API = 1


def probe():
    raise OSError("the driver is asleep")


@hookimpl
def optim_targets():
    return (Target("asleep", "acme", "CPUExecutionProvider", probe=probe),)
