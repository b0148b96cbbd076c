# SPDX-License-Identifier: BSD-3-Clause
# Prefix: where this Weft is installed, whether by `make`, `cmake --install` or pip.
import os
import sys
import sysconfig

LIBRARY = "libmpi_abi.so.1"


class NotInstalled(Exception):
    """No library belongs to this Python package; the text says what to do."""


def find():
    """The folder that holds bin/, lib/ and include/ of this Weft; raises NotInstalled."""
    package = os.path.dirname(os.path.abspath(__file__))
    candidates = [
        os.path.normpath(os.path.join(package, "..", "..", "..", "..")),  # share/weft/python/weft
        sysconfig.get_path("data"),
        sys.prefix,
        os.path.expanduser("~/.local"),  # pip install --user
    ]
    for prefix in candidates:
        if os.path.exists(os.path.join(prefix, "lib", LIBRARY)):
            return prefix
    raise NotInstalled("%s is not in any of %s: run `make`, or `pip install .`" % (LIBRARY, ", ".join(candidates)))
