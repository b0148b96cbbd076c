// SPDX-License-Identifier: BSD-3-Clause
// Special addresses: common blocks of mpif.h, variables of the modules. A program with mpif.h defines them
// too, and the dynamic linker makes both one, so they are never bound inside this library (-Bsymbolic).
// The names are those of Open MPI; MPICH has other blocks.
#pragma once
#include <mpi.h>

extern "C" {
extern int mpi_fortran_buffer_automatic_;
extern MPI_Status mpi_fortran_f08_status_ignore_, mpi_fortran_f08_statuses_ignore_;
}

#ifdef WEFT_FORTRAN_MPICH
extern "C" {
extern struct Mpipriv1 { int bottom, in_place, status_ignore[MPI_F_STATUS_SIZE]; } mpipriv1_;
extern struct Mpipriv2 { int statuses_ignore[MPI_F_STATUS_SIZE], errcodes_ignore; } mpipriv2_;
extern struct Mpiprivc { char argvs_null, argv_null; } mpiprivc_;
extern int mpifcmb5_, mpifcmb9_;
}
#define mpi_fortran_bottom_ mpipriv1_.bottom
#define mpi_fortran_in_place_ mpipriv1_.in_place
#define mpi_fortran_status_ignore_ mpipriv1_.status_ignore
#define mpi_fortran_statuses_ignore_ mpipriv2_.statuses_ignore
#define mpi_fortran_errcodes_ignore_ mpipriv2_.errcodes_ignore
#define mpi_fortran_argvs_null_ mpiprivc_.argvs_null
#define mpi_fortran_argv_null_ mpiprivc_.argv_null
#define mpi_fortran_unweighted_ mpifcmb5_
#define mpi_fortran_weights_empty_ mpifcmb9_
#else
extern "C" {
extern int mpi_fortran_bottom_, mpi_fortran_in_place_;
extern int mpi_fortran_status_ignore_[MPI_F_STATUS_SIZE], mpi_fortran_statuses_ignore_[MPI_F_STATUS_SIZE];
extern int mpi_fortran_errcodes_ignore_, mpi_fortran_unweighted_, mpi_fortran_weights_empty_;
extern char mpi_fortran_argv_null_, mpi_fortran_argvs_null_;
}
#endif
