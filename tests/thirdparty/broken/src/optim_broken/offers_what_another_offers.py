from optim import Target, hookimpl
from optim_broken.stock import make

OPTIM_HOOK_API = 1


class Rival:
    OPTIM_HOOK_API = 1

    def __init__(self, device):
        self.device = device

    @hookimpl
    def optim_targets(self):
        return (Target("contested", "acme", "CPUExecutionProvider", device=self.device),)

    @hookimpl
    def optim_fuse(self, target):
        return (make("acme.round"),)


one, two = Rival("one"), Rival("two")
