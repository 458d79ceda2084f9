"""``python -m manyone``: the command line."""

import sys

from manyone.cli import main

sys.exit(main())
