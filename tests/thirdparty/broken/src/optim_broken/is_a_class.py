class Plugin:
    OPTIM_HOOK_API = 1
