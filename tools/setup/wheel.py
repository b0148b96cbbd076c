#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Wheel: builds a wheel into dist/, like `python3 -m build --wheel`, but with the pip found by set-up.
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from packages import Missing, Pip  # noqa: E402


def main():
    try:
        pip = Pip("build/tools/pip").find()
    except Missing as error:
        sys.exit("wheel: error: %s" % error)
    return subprocess.run([*pip, "wheel", "--no-deps", "-w", "dist", "."], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
