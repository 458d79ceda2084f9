"""``python -m manyone``: the command line."""

import sys

from manyone.cli import main

if __name__ == "__main__":
    sys.exit(main())
