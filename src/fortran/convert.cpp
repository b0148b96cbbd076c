// SPDX-License-Identifier: BSD-3-Clause
// Special addresses, strings, sizes of communicators.
#include "fortran/convert.hpp"

#include <algorithm>
#include <cstring>

#define WEFT_FORTRAN_DATA __attribute__((visibility("default")))

extern "C" {
WEFT_FORTRAN_DATA int mpi_fortran_buffer_automatic_ = 0;
WEFT_FORTRAN_DATA MPI_Status mpi_fortran_f08_status_ignore_ = {}, mpi_fortran_f08_statuses_ignore_ = {};
#ifdef WEFT_FORTRAN_MPICH
WEFT_FORTRAN_DATA Mpipriv1 mpipriv1_ = {};
WEFT_FORTRAN_DATA Mpipriv2 mpipriv2_ = {};
WEFT_FORTRAN_DATA Mpiprivc mpiprivc_ = {};
WEFT_FORTRAN_DATA int mpifcmb5_ = 0, mpifcmb9_ = 0;
#else
WEFT_FORTRAN_DATA int mpi_fortran_bottom_ = 0;
WEFT_FORTRAN_DATA int mpi_fortran_in_place_ = 0;
WEFT_FORTRAN_DATA int mpi_fortran_status_ignore_[MPI_F_STATUS_SIZE] = {};
WEFT_FORTRAN_DATA int mpi_fortran_statuses_ignore_[MPI_F_STATUS_SIZE] = {};
WEFT_FORTRAN_DATA int mpi_fortran_errcodes_ignore_ = 0;
WEFT_FORTRAN_DATA int mpi_fortran_unweighted_ = 0;
WEFT_FORTRAN_DATA int mpi_fortran_weights_empty_ = 0;
WEFT_FORTRAN_DATA char mpi_fortran_argv_null_ = 0;
WEFT_FORTRAN_DATA char mpi_fortran_argvs_null_ = 0;
#endif
}

namespace weft::fortran {

String::String(const char* text, size_t length) {
  while (length > 0 && text[length - 1] == ' ') --length;
  text_.assign(text, length);
}

namespace {
size_t leading_blanks(const char* text, size_t length) {
  size_t blanks = 0;
  while (blanks < length && text[blanks] == ' ') ++blanks;
  return blanks;
}
}  // namespace

Stripped::Stripped(const char* text, size_t length)
    : String(text + leading_blanks(text, length), length - leading_blanks(text, length)) {}

void copy_out(char* text, size_t length, const char* c_text) {
  const size_t used = std::min(length, std::strlen(c_text));
  std::memcpy(text, c_text, used);
  std::memset(text + used, ' ', length - used);
}

void out_of_memory(int* ierror) {
  PMPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_NO_MEM);
  set_error(ierror, MPI_ERR_NO_MEM);
}

MPI_Count peers(int comm, bool /*sending*/) {
  int inter = 0, size = 0;
  if (PMPI_Comm_test_inter(in<Comm>(comm), &inter) != MPI_SUCCESS) return 0;
  (inter != 0 ? PMPI_Comm_remote_size : PMPI_Comm_size)(in<Comm>(comm), &size);
  return size;
}

MPI_Count neighbors(int comm, bool sending) {
  const auto c_comm = in<Comm>(comm);
  int topology = MPI_UNDEFINED, in_degree = 0, out_degree = 0, weighted = 0;
  if (PMPI_Topo_test(c_comm, &topology) != MPI_SUCCESS) return 0;
  if (topology == MPI_CART) {
    PMPI_Cartdim_get(c_comm, &in_degree);
    return MPI_Count{2} * in_degree;
  }
  if (topology == MPI_GRAPH) {
    int rank = 0;
    PMPI_Comm_rank(c_comm, &rank);
    PMPI_Graph_neighbors_count(c_comm, rank, &in_degree);
    return in_degree;
  }
  if (topology == MPI_DIST_GRAPH) PMPI_Dist_graph_neighbors_count(c_comm, &in_degree, &out_degree, &weighted);
  return sending ? out_degree : in_degree;
}

}  // namespace weft::fortran
