"""Many runs and many machines: the plugin ``fleet`` of optim."""
