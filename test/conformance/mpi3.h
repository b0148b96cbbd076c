/* SPDX-License-Identifier: BSD-3-Clause
 * Replacements for names that the MPICH tests use and that the mpi.h of the standard ABI lacks. */
#define MPI_Type_hindexed MPI_Type_create_hindexed
#define MPI_Type_hvector MPI_Type_create_hvector

/* Integer handles (MPI 5.0 section 20.3.4). */
#define MPI_Fint int
#define MPI_Message_c2f MPI_Message_toint
#define MPI_Message_f2c MPI_Message_fromint
#define PMPI_Message_c2f PMPI_Message_toint
#define PMPI_Message_f2c PMPI_Message_fromint
