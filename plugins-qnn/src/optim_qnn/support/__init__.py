"""The verb ``optim qnn``: what HTP takes of a model."""
