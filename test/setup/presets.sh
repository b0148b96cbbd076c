#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The presets for sanitizers can be configured, tests included. usage: presets.sh CMAKE NINJA SOURCES
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for preset in asan-ubsan tsan; do
  "$1" -DCMAKE_MAKE_PROGRAM="$2" --preset $preset --log-level=NOTICE -S "$3" -B "$folder/$preset"
done
