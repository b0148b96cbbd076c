! SPDX-License-Identifier: BSD-3-Clause
! Counts calls of MPI_Send and MPI_Barrier, for profiling.F90. In mpi_f08 routines have the linker's names of MPI 5.0
! section 19.1.5.
block data
  implicit none
  integer :: sends, barriers
  common /calls/ sends, barriers
  data sends, barriers / 0, 0 /
end block data

#ifdef F08
subroutine count_send(buf, count, datatype, dest, tag, comm, ierror) bind(C, name="mpi_send_f08ts_")
  use mpi_f08, only: MPI_Datatype, MPI_Comm, PMPI_Send
  use, intrinsic :: iso_c_binding, only: C_INT
  implicit none
  type(*), dimension(..), intent(in) :: buf
  integer(C_INT), intent(in) :: count, dest, tag
  type(MPI_Datatype), intent(in) :: datatype
  type(MPI_Comm), intent(in) :: comm
  integer(C_INT), optional, intent(out) :: ierror
  integer :: sends, barriers
  common /calls/ sends, barriers
  sends = sends + 1
  call PMPI_Send(buf, count, datatype, dest, tag, comm, ierror)
end subroutine
subroutine mpi_barrier_f08(comm, ierror)
  use mpi_f08, only: MPI_Comm, PMPI_Barrier
  implicit none
  type(MPI_Comm), intent(in) :: comm
  integer, optional, intent(out) :: ierror
  integer :: sends, barriers
  common /calls/ sends, barriers
  barriers = barriers + 1
  call PMPI_Barrier(comm, ierror)
end subroutine
#else
subroutine MPI_Send(buf, count, datatype, dest, tag, comm, ierror)
  implicit none
  integer :: buf(*), count, datatype, dest, tag, comm, ierror
  integer :: sends, barriers
  common /calls/ sends, barriers
  external :: PMPI_Send
  sends = sends + 1
  call PMPI_Send(buf, count, datatype, dest, tag, comm, ierror)
end subroutine
subroutine MPI_Barrier(comm, ierror)
  implicit none
  integer :: comm, ierror
  integer :: sends, barriers
  common /calls/ sends, barriers
  external :: PMPI_Barrier
  barriers = barriers + 1
  call PMPI_Barrier(comm, ierror)
end subroutine
#endif
