#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Types into an interactive shell: terminal.py KEYS SHELL [ARGUMENT ...]

Prints the words of the command line after KEYS (a tab completes), one per line. The shell must move
to the start of the line on Ctrl-A.
"""
import os
import pty
import select
import sys
import time

LIMIT = 30.0  # seconds


def main() -> int:
    keys, command = sys.argv[1], sys.argv[2:]
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execvp(command[0], command)
    end = time.monotonic() + LIMIT
    output = b""

    def read_until(text: bytes) -> None:
        nonlocal output
        while text not in output and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                output += os.read(terminal, 65536)

    # The quotes make the echo of the terminal differ from the output of the shell.
    os.write(terminal, b"printf 'rea''dy\\n'\r")
    read_until(b"ready\r\n")
    os.write(terminal, keys.encode() + b"\x01printf '<%s''>\\n' \r")
    os.write(terminal, b"printf 'do''ne\\n'\r")
    read_until(b"done\r\n")
    os.close(terminal)
    for line in output.decode(errors="replace").replace("\r", "\n").split("\n"):
        if line.startswith("<") and line.endswith(">"):
            print(line[1:-1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
