"""What a plugin's own commands are made with, so that they look and behave like those of optim."""
