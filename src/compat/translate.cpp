// SPDX-License-Identifier: BSD-3-Clause
#include "compat/translate.hpp"

#include <algorithm>

namespace weft::compat {

namespace {

// Native error codes (api/error_codes.cpp): classes; user codes above MPI_ERR_LASTCODE; from kMessageBit on a
// class in the low bits with the number of a message. A user code becomes a code with kUserBit in place of a
// class, which lies above the MPI_ERR_LASTCODE of every interface. A code of a callback that no interface
// defines becomes kOpaque - code.
constexpr int kMessageBit = 1 << 30, kClassBits = 14, kClassMask = (1 << kClassBits) - 1, kUserBit = 1 << 13;
constexpr int kOpaque = -1000000;

}  // namespace

int convert_error_in(int code) {
  if (code < 0) return code;
  if (code >= kMessageBit) {
    const int low = code & kClassMask;
    if ((low & kUserBit) != 0)
      return MPI_ERR_LASTCODE + 1 +
             ((code - kMessageBit) >> kClassBits << (kClassBits - 1) | (low & (kUserBit - 1)));
    const int error_class = in_error_class(low);
    return (code & ~kClassMask) | (error_class == kUnknownValue ? MPI_ERR_UNKNOWN : error_class);
  }
  const int error_class = in_error_class(code);
  if (error_class != kUnknownValue) return error_class;
  return code > kClassMask || out_error_class(code) != kUnknownValue ? kOpaque - code : code;
}

int convert_error_out(int code) {
  if (code < 0) return code < kOpaque ? kOpaque - code : code;
  if (code > kClassMask && code < kMessageBit) {
    const int number = code - MPI_ERR_LASTCODE - 1;
    return kMessageBit + (number >> (kClassBits - 1) << kClassBits) + (kUserBit | (number & (kUserBit - 1)));
  }
  const int error_class = out_error_class(code & kClassMask);
  if (code >= kMessageBit)
    return (code & ~kClassMask) |
           (error_class == kUnknownValue ? out_error_class(MPI_ERR_OTHER) : error_class);
  return error_class == kUnknownValue ? code : error_class;
}

int out_of_memory() {
  native.Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_NO_MEM);
  return out_error(MPI_ERR_NO_MEM);
}

int duplicate_attribute(void* value, void* result, int* flag) {
  std::memcpy(result, &value, sizeof value);
  *flag = 1;
  return MPI_SUCCESS;
}

void out_string(char* to, const char* from, int limit, int* length) {
  if (to == nullptr) return;
  const size_t size = std::min(std::strlen(from), static_cast<size_t>(limit) - 1);
  std::memcpy(to, from, size);
  to[size] = '\0';
  if (length != nullptr) *length = static_cast<int>(size);
}

MPI_Count peers(Handle comm, bool /*sending*/) {
  int inter = 0, size = 0;
  if (native.Comm_test_inter(in<Comm>(comm), &inter) != MPI_SUCCESS) return 0;
  (inter != 0 ? native.Comm_remote_size : native.Comm_size)(in<Comm>(comm), &size);
  return size;
}

MPI_Count neighbors(Handle comm, bool sending) {
  const MPI_Comm native_comm = in<Comm>(comm);
  int topology = MPI_UNDEFINED, in_degree = 0, out_degree = 0, weighted = 0;
  if (native.Topo_test(native_comm, &topology) != MPI_SUCCESS) return 0;
  if (topology == MPI_CART) {
    native.Cartdim_get(native_comm, &in_degree);
    return 2 * in_degree;
  }
  if (topology == MPI_GRAPH) {
    int rank = 0;
    native.Comm_rank(native_comm, &rank);
    native.Graph_neighbors_count(native_comm, rank, &in_degree);
    return in_degree;
  }
  if (topology == MPI_DIST_GRAPH)
    native.Dist_graph_neighbors_count(native_comm, &in_degree, &out_degree, &weighted);
  return sending ? out_degree : in_degree;
}

}  // namespace weft::compat
