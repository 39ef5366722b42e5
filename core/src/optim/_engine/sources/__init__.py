"""From a source to graphs: what the user named, loaded and changed by passes, exported, checked and verified."""
