// SPDX-License-Identifier: BSD-3-Clause
// Get: bulk data that this process reads from a peer, or writes to it, and the reads or writes of libfabric
// that move them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/ofi/connection.hpp"
#include "transport/ofi/registration.hpp"

namespace weft::transport::ofi {

struct Stripe {  ///< contiguous bytes that one pair of adapters moves
  AdapterPair* pair;
  std::byte* to;
  uint64_t from, key;  ///< of the first remote byte
  size_t length;
  size_t issued = 0;  ///< bytes for which reads were issued
};

struct Get {         ///< or a put
  Completion* done;  ///< null: already fired because the peer is lost
  Peer peer;
  bool writes = false;       ///< a put
  Region* region = nullptr;  ///< registration of the local buffer if the provider needs one
  std::array<Stripe, kMaxAdapters> stripes = {};
  size_t stripe_count = 0;
  size_t unissued = 0;            ///< bytes of all stripes
  AdapterPair* failed = nullptr;  ///< that of the first failed read
  uint32_t outstanding_reads = 0;
  bool deferred = false;  ///< failed: completes after the peer's next heartbeat
  Status outcome = {};
};

struct Read : Operation {
  Read() { kind = Kind::read; }
  Get* get = nullptr;
  AdapterPair* pair = nullptr;
};

}  // namespace weft::transport::ofi
