// SPDX-License-Identifier: BSD-3-Clause
// The kernels' image of the Jacobi solver on the emulated driver, which accepts any.
extern "C" const unsigned char weft_fatbin_kernels[16] = {};
