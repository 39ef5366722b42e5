"""The browser as a target: onnxruntime-web under Node and in Chromium, its operator tables, and the page of a run."""
