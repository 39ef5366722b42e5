"""The plugin of a vendor who makes the mistake that the environment variable FAULTY names, such as ``abort open``."""
