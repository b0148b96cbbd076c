// SPDX-License-Identifier: BSD-3-Clause
// Shared by the multi-rank tests: types of the oracle's layouts, the three forms of a collective, failures.
#pragma once
#include <mpi.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "coll/test_memory.hpp"
#include "reference/coll.hpp"

namespace expect {

using reference::Field;
using reference::Layout;

enum class Form { blocking, nonblocking, persistent };
inline constexpr Form kForms[] = {Form::blocking, Form::nonblocking, Form::persistent};

/// Description of the current case for failure messages; set before each call.
inline char situation[256] = "";
/// Seed and step of a random program, for the same messages.
inline char step[96] = "";
inline long checks = 0;

[[noreturn]] inline void fail(const char* what, long a = 0, long b = 0) {
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::fprintf(stderr, "rank %d: %s%s: %s (%ld, %ld)\n", rank, step, situation, what, a, b);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

inline void success(int code) {
  if (code != MPI_SUCCESS) fail("error code", code);
}

inline void equal(const Field& got, const Field& wanted) {
  ++checks;
  if (const int64_t at = got.difference(wanted); at >= 0) fail("wrong word", static_cast<long>(at));
}

inline MPI_Datatype pair = MPI_DATATYPE_NULL, gaps = MPI_DATATYPE_NULL;
inline MPI_Op composition = MPI_OP_NULL;

inline MPI_Datatype type_of(const Layout& layout) {
  if (layout.words == 1) return MPI_UINT32_T;
  if (pair == MPI_DATATYPE_NULL) {
    MPI_Datatype vector;
    MPI_Type_contiguous(2, MPI_UINT32_T, &pair);
    MPI_Type_vector(2, 1, reference::kGaps.stride, MPI_UINT32_T, &vector);
    MPI_Type_create_resized(vector, 0, reference::kGaps.extent * 4, &gaps);
    MPI_Type_free(&vector);
    MPI_Type_commit(&pair);
    MPI_Type_commit(&gaps);
  }
  return layout.extent == 2 ? pair : gaps;
}

inline void compose(void* in, void* inout, int* count, MPI_Datatype* type) {
  const Layout layout = *type == type_of(reference::kGaps) ? reference::kGaps : reference::kPair;
  auto *left = static_cast<uint32_t*>(in), *right = static_cast<uint32_t*>(inout);
  for (int i = 0; i < *count; ++i, left += layout.extent, right += layout.extent) {
    const auto product =
        reference::Affine{left[0], left[layout.stride]} * reference::Affine{right[0], right[layout.stride]};
    right[0] = product.a;
    right[layout.stride] = product.b;
  }
}

/// MPI_SUM for words, composition for pairs.
inline MPI_Op op_of(const Layout& layout) {
  if (layout.words == 1) return MPI_SUM;
  if (composition == MPI_OP_NULL) MPI_Op_create(compose, 0, &composition);
  return composition;
}

/// Frees the types and operations that the functions above have created.
inline void close() {
  if (pair != MPI_DATATYPE_NULL) MPI_Type_free(&pair);
  if (gaps != MPI_DATATYPE_NULL) MPI_Type_free(&gaps);
  if (composition != MPI_OP_NULL) MPI_Op_free(&composition);
}

/// Runs one collective in one of its forms; starts a persistent one twice. `load` fills the buffers before
/// each run, `check` compares them after each run.
template <class Load, class Check, class Blocking, class Nonblocking, class Persistent, class... A>
void run(Form form, Load&& load, Check&& check, Blocking blocking, Nonblocking nonblocking,
         Persistent persistent, A... arguments) {
  FieldCopies copies;
  const auto fill = [&] {
    load();
    copies.upload();
  };
  const auto compare = [&] {
    copies.download();
    check();
  };
  if (form != Form::persistent) fill();
  if (form == Form::blocking) {
    success(blocking(arguments...));
    return compare();
  }
  MPI_Request request;
  if (form == Form::nonblocking) {
    success(nonblocking(arguments..., &request));
    success(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (request != MPI_REQUEST_NULL) fail("the request outlives its completion");
    return compare();
  }
  success(persistent(arguments..., MPI_INFO_NULL, &request));
  for (int time = 0; time < 2; ++time) {
    fill();
    success(MPI_Start(&request));
    int done = 0;
    while (done == 0) success(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    compare();
  }
  success(MPI_Request_free(&request));
}

}  // namespace expect
