"""The command line, ``manyone`` or ``python -m manyone``, imported when called."""

import sys


def main() -> int:
    """Run the command line; ctrl-C while it is imported ends it in one line, too."""
    try:
        from manyone.cli import main as run
    except KeyboardInterrupt:
        print("manyone: stopped.", file=sys.stderr)
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
