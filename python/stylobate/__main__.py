"""The command `stylobate`, as the wheel installs it: the Rust command line, run in this interpreter."""

import signal
import sys

from stylobate._stylobate import run_command


def main() -> int:
    """Runs the command line of this process, and returns the exit code."""
    # Python's handler only sets a flag for the interpreter, which does not run again before the command ends. A signal
    # that is ignored, as in a background job, stays ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_command(["stylobate", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
