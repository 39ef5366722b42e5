"""The plugin of Acme, a vendor who behaves."""
