// SPDX-License-Identifier: BSD-3-Clause
// Distribution of ranks over fake hosts: contiguous blocks, sizes differ by at most one, larger blocks first.
#include <gtest/gtest.h>

#include <vector>

#include "launch/fake_hosts.hpp"

namespace weft::launch {
namespace {

TEST(FakeHosts, BlocksAreEvenAndInOrder) {
  for (int size = 1; size <= 40; ++size)
    for (int hosts = 1; hosts <= size; ++hosts) {
      std::vector<int> ranks(static_cast<size_t>(hosts));
      int last = 0;
      for (int rank = 0; rank < size; ++rank) {
        const int host = fake_host_of(rank, size, hosts);
        ASSERT_GE(host, last);
        ASSERT_LE(host, last + 1);
        ASSERT_LT(host, hosts);
        ++ranks[static_cast<size_t>(host)];
        last = host;
      }
      for (int host = 0; host < hosts; ++host)
        ASSERT_EQ(ranks[static_cast<size_t>(host)], size / hosts + (host < size % hosts ? 1 : 0));
    }
}

}  // namespace
}  // namespace weft::launch
