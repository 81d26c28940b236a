"""`python -m shim.demo.parts`: whether the demo's parts can be had here, before anything is installed for them.

What is missing is one line on standard error, with what to do, and exit status 1.
"""

import sys

from shim.demo.parts.cache import PartsUnavailable
from shim.demo.parts.jars import KAFKA, look_for

try:
    look_for(KAFKA)
except PartsUnavailable as missing:
    sys.exit(f"Error: {missing}")
