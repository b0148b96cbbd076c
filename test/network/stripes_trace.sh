#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A trace shows the transfers that are striped among two adapters. usage: stripes_trace.sh COMMAND...
set -e
trace=$(mktemp)
trap 'rm -f "$trace"' EXIT
weft trace -o "$trace" "$@"
grep -q '"net.striped_by_2"' "$trace" || {
  echo "the trace has no range net.striped_by_2" >&2
  exit 1
}
