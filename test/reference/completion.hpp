// SPDX-License-Identifier: BSD-3-Clause
// The functions that complete requests of a list.
#pragma once
#include <mpi.h>

#include <algorithm>
#include <vector>

namespace randomized {

/// The first four block until a request is complete, the others do not.
enum class Completion { wait, wait_any, wait_some, wait_all, test, test_any, test_some, test_all };

struct Completed {
  size_t index;
  MPI_Status status;
};

/// Completes requests of a list, none of which is MPI_REQUEST_NULL; wait and test use the first one only.
/// Sets `completed` to the completed requests, in the order of the list, and returns the error code.
inline int complete(std::vector<MPI_Request>& requests, Completion way, std::vector<Completed>& completed) {
  const auto n = static_cast<int>(requests.size());
  std::vector<MPI_Status> statuses(requests.size());
  std::vector<int> indices(requests.size(), 0);
  int count = 0, flag = 1, code = MPI_SUCCESS;
  switch (way) {
    case Completion::wait:
      code = MPI_Wait(&requests[0], &statuses[0]);
      break;
    case Completion::wait_any:
      code = MPI_Waitany(n, requests.data(), indices.data(), &statuses[0]);
      break;
    case Completion::wait_some:
      code = MPI_Waitsome(n, requests.data(), &count, indices.data(), statuses.data());
      break;
    case Completion::wait_all:
      code = MPI_Waitall(n, requests.data(), statuses.data());
      break;
    case Completion::test:
      code = MPI_Test(&requests[0], &flag, &statuses[0]);
      break;
    case Completion::test_any:
      code = MPI_Testany(n, requests.data(), indices.data(), &flag, &statuses[0]);
      break;
    case Completion::test_some:
      code = MPI_Testsome(n, requests.data(), &count, indices.data(), statuses.data());
      break;
    case Completion::test_all:
      code = MPI_Testall(n, requests.data(), &flag, statuses.data());
      break;
  }
  const bool all = way == Completion::wait_all || way == Completion::test_all;
  const bool some = way == Completion::wait_some || way == Completion::test_some;
  if (!some) count = flag == 0 ? 0 : all ? n : 1;
  completed.clear();
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    completed.push_back({all ? at : static_cast<size_t>(indices[at]), statuses[at]});
  }
  std::ranges::sort(completed, {}, &Completed::index);
  return code;
}

}  // namespace randomized
