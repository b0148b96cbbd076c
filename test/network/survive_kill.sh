#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs a rank; if the rank is killed, this shell sleeps in its place, so that the launcher does not end the job.
"$@"
code=$?
[ $code = 137 ] && exec sleep 60
exit $code
