from optim import hookimpl

OPTIM_HOOK_API = 1


@hookimpl
def optim_commands():
    return ("optim_broken.no_such_module:brew", "optim_broken.stock:run", "brew some tea")
