#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs a command that must exit with the given code. usage: expect_code.sh CODE COMMAND...
wanted=$1
shift
"$@"
code=$?
[ "$code" = "$wanted" ] && exit 0
echo "exited with code $code, not $wanted"
exit 1
