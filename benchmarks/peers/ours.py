"""This package, with the settings that the competitors have."""

import json
import sys

from turns import serve

from masp.bench.turns import Training
from masp.config import replace
from masp.presets import from_preset

ENV, PRESET, ITERATIONS, CHANGES = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])

changes = {name: tuple(value) if isinstance(value, list) else value for name, value in CHANGES.items()}
training = Training(replace(from_preset(PRESET, ENV), variant="rainbow", **changes), ITERATIONS)
training()
serve(training, training.steps, training.updates)
