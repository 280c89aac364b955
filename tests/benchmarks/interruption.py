"""How a benchmark that is run as a command ends: with its code, or in one line on Ctrl-C.

if __name__ == "__main__":
ended(main)
"""

import sys
from collections.abc import Callable
from typing import NoReturn


def ended(main: Callable[[], int | None]) -> NoReturn:
    """Run `main` and end the process as it says; 130 where somebody stopped it.

    Raises:
        SystemExit: Always.
    """
    try:
        code = main()
    except KeyboardInterrupt:
        # A traceback of wherever it was is of no use to who has pressed two keys.
        print("interrupted; call it again to measure anew", file=sys.stderr)
        code = 130  # as the command line, which a bare machine lacks the packages for
    sys.exit(code)
