# SPDX-License-Identifier: BSD-3-Clause
# job: finds running jobs and their hosts (find.py), and runs a collector on each of these hosts (hosts.py).
