// SPDX-License-Identifier: BSD-3-Clause
// The only functions beside those of mpi.h that libmpi_abi_fortran.so.1 calls: array sections of requests
// that the calling thread got from a PMPI function and has not passed to the program yet.
#pragma once
#include <mpi.h>

#include "coll/schedule/section_copies.hpp"

extern "C" {

/// Gives `copies` to a request of PMPI_I* or PMPI_*_init of a collective.
__attribute__((visibility("default"))) void weft_set_section_copies(MPI_Request request,
                                                                    weft::coll::SectionCopies* copies);
/// Makes `count` items of `type` at its address the buffer of a request of PMPI_Psend_init or
/// PMPI_Precv_init. The partitions keep their sizes and are the first bytes of the items. Returns an error
/// class.
__attribute__((visibility("default"))) int weft_set_partitioned_section(MPI_Request request, MPI_Count count,
                                                                        MPI_Datatype type);
}
