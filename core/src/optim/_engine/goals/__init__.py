"""The goals of optim itself, behind the contract of :mod:`optim.goal`: what each makes small, and its clock."""
