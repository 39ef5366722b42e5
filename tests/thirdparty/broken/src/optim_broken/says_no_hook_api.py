from optim import hookimpl


@hookimpl
def optim_fuse(target):
    return ()
