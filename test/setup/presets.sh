#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Checks that the preset with several sanitizers configures, including tests. usage: presets.sh CMAKE NINJA SOURCES
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" -DCMAKE_MAKE_PROGRAM="$2" --preset asan-ubsan --log-level=NOTICE -S "$3" -B "$folder"
