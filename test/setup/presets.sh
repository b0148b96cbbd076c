#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The preset with several sanitizers can be configured, tests included. usage: presets.sh CMAKE NINJA SOURCES
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" -DCMAKE_MAKE_PROGRAM="$2" --preset asan-ubsan --log-level=NOTICE -S "$3" -B "$folder"
