# SPDX-License-Identifier: BSD-3-Clause
"""Facts about this machine, read from the kernel, the CUDA driver and NVML. Nothing here needs root."""
