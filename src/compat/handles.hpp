// SPDX-License-Identifier: BSD-3-Clause
// The handles, types and values of the interface for which a file is compiled: the other files of this folder
// are compiled once for each library of lib/compat.
#pragma once
#if defined(WEFT_COMPAT_OPENMPI)
#include "compat/openmpi_handles.hpp"
#elif defined(WEFT_COMPAT_MPICH)
#include "compat/mpich_handles.hpp"
#else
#error "define WEFT_COMPAT_MPICH or WEFT_COMPAT_OPENMPI"
#endif
