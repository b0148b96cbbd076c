/* SPDX-License-Identifier: BSD-3-Clause
 * Replacements for names that the MPICH tests use and that mpi.h lacks. */
#define PMPI_Message_c2f PMPI_Message_toint
#define PMPI_Message_f2c PMPI_Message_fromint
/* The tests of fault tolerance use names of MPICH's mpi.h that Weft has in a header of its own. */
#if !defined __GFORTRAN__ && !defined __ASSEMBLER__
#include <weft.h>
#endif
