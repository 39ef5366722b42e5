"""A folder of peft becomes a file of arrays for the inputs of a model."""
