from optim import Target, hookimpl

OPTIM_HOOK_API = 1


@hookimpl
def optim_targets():
    return (Target("adrift", "a-backend-of-nobody", "CPUExecutionProvider"),)
