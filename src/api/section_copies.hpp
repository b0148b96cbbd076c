// SPDX-License-Identifier: BSD-3-Clause
// The only function beside those of mpi.h that libmpi_abi_fortran.so.1 calls.
#pragma once
#include <mpi.h>

#include "coll/schedule/section_copies.hpp"

/// Gives `copies` to a request that the calling thread got from PMPI_I* or PMPI_*_init of a collective and
/// has not passed to the program yet.
extern "C" __attribute__((visibility("default"))) void weft_set_section_copies(
    MPI_Request request, weft::coll::SectionCopies* copies);
