#!/bin/sh
# Installs onnxruntime-gpu from parts/ (gpu_wheel.py) and what lies in wheels/, unless they are here already: every
# command on a machine that may be another one each time can begin with it. Takes half a minute; PYTHON=python3.12 ...
set -e
python=${PYTHON:-python3}
has='from importlib.metadata import version as v; v("onnxruntime-gpu"), v("optim-core"), v("optim-plugins")'
if "$python" -c "$has" 2>/dev/null; then
    exit 0
fi
name=$(cat parts/NAME.txt)
whole=$(mktemp -d)
cat parts/*.part* > "$whole/$name"
(cd "$whole" && sha256sum -c --quiet -) < parts/SHA256.txt || {
    echo "a part is missing or damaged: bring all of parts/" >&2
    exit 1
}
"$python" -m pip uninstall -q -y onnxruntime onnxruntime-gpu
"$python" -m pip install -q --no-deps --no-index "$whole/$name" wheels/*.whl
rm -r "$whole"
"$python" -m optim targets
