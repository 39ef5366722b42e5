raise ImportError("no license for this machine")
