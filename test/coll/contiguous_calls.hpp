// SPDX-License-Identifier: BSD-3-Clause
// Collectives on contiguous data between those on other layouts, checked.
#pragma once
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "device/cuda_test_support.hpp"
#include "reference/draw.hpp"
#include "stream/order_comm.hpp"

namespace layouts {

using Bytes = std::vector<char>;
using randomized::mix;
using weft::test::Buffer;
using weft::test::Stream;

/// Contiguous blocks of one size by the v- and w-forms, which the resident kernel executes.
inline void even_calls(MPI_Comm comm, Buffer& buffer, uint64_t seed) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const auto ranks = static_cast<size_t>(size);
  const int n = 1 + mix(seed, 7, 7, 6);
  std::vector<int> counts(ranks, n), places(ranks), bytes(ranks);
  const std::vector<MPI_Datatype> types(ranks, MPI_INT);
  for (size_t i = 0; i < ranks; ++i) {
    places[i] = static_cast<int>(i) * n;
    bytes[i] = places[i] * 4;
  }
  std::vector<int> values(ranks * static_cast<size_t>(n));
  Bytes in(values.size() * sizeof(int));
  char *const send = buffer.data(), *const receive = send + 1024;
  for (int call = 0; call < 12; ++call) {
    const auto value = [&](int from, int to, int i) {
      return mix(seed + static_cast<uint64_t>(call), from * 64 + to, i, 1000);
    };
    for (int to = 0; to < size; ++to)
      for (int i = 0; i < n; ++i) values[static_cast<size_t>(to * n + i)] = value(rank, to, i);
    std::memcpy(in.data(), values.data(), in.size());
    buffer.write(in, 0);
    if (call % 2 == 0)
      MPI_Alltoallv(send, counts.data(), places.data(), MPI_INT, receive, counts.data(), places.data(),
                    MPI_INT, comm);
    else
      MPI_Alltoallw(send, counts.data(), bytes.data(), types.data(), receive, counts.data(), bytes.data(),
                    types.data(), comm);
    const Bytes out = buffer.read(1024, in.size());
    std::memcpy(values.data(), out.data(), out.size());
    for (int from = 0; from < size; ++from)
      for (int i = 0; i < n; ++i)
        if (values[static_cast<size_t>(from * n + i)] != value(from, rank, i)) {
          std::fprintf(stderr, "rank %d of %d: even blocks differ, seed %llu\n", rank, size,
                       static_cast<unsigned long long>(seed));
          MPI_Abort(MPI_COMM_WORLD, 1);
        }
  }
}

/// A contiguous reduction in place in a buffer.
class Sum {
 public:
  static constexpr int kCount = 64;
  Sum(MPI_Comm comm, Buffer& buffer, uint64_t seed) : buffer_(buffer), seed_(seed), wanted_(kCount) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
    std::vector<int> values(kCount);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = mix(seed, rank_, static_cast<int>(i), 1000);
      for (int other = 0; other < size_; ++other) wanted_[i] += mix(seed, other, static_cast<int>(i), 1000);
    }
    Bytes bytes(values.size() * sizeof(int));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    buffer.write(bytes, 0);
  }
  [[nodiscard]] void* data() const { return buffer_.data(); }
  void check() const {
    const Bytes got = buffer_.read(0, wanted_.size() * sizeof(int));
    if (std::memcmp(got.data(), wanted_.data(), got.size()) == 0) return;
    std::fprintf(stderr, "rank %d of %d: wrong sum, seed %llu\n", rank_, size_,
                 static_cast<unsigned long long>(seed_));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

 private:
  Buffer& buffer_;
  uint64_t seed_;
  int rank_ = 0, size_ = 0;
  std::vector<int> wanted_;
};

/// A contiguous reduction between the calls of other layouts, in the order of `stream` unless it is null.
inline void plain_calls(MPI_Comm comm, Buffer& buffer, uint64_t seed, Stream stream = nullptr) {
  const Sum sum(comm, buffer, seed);
  MPI_Allreduce(MPI_IN_PLACE, sum.data(), Sum::kCount, MPI_INT, MPI_SUM, comm);
  if (stream != nullptr) weft::test::enqueued::poll_until_idle(stream);
  sum.check();
}

}  // namespace layouts
