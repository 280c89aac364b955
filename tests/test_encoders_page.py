"""docs/encoders.md: its commands, run as they stand, on a few hundred real images of CIFAR-10.

One small sweep, of two trials; encoders with random weights and with weights trained here.
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from labeldp.platform.cli.command_line import main
from labeldp.platform.cli.sweep_command import run_command
from labeldp.platform.records.kept_results import KeptResults, read_results
from labeldp.trainers.data import load
from labeldp.trainers.encoders.provenance import League
from labeldp.trainers.trained_model import load_model
from tests.real_data import real_data_root

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "encoders.md").read_text()
RESULTS = Path("results") / "moments_on_embeddings"
