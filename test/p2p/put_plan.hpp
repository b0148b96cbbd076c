// SPDX-License-Identifier: BSD-3-Clause
// Plan of a random exchange between two ranks, known to both from a common seed.
#pragma once
#include <mpi.h>

#include <cstddef>
#include <vector>

#include "../reference/draw.hpp"
#include "device/mpi_main.hpp"

namespace weft::test {

/// The messages of one rank to another in one communicator, and the receives for them. The two orders define
/// matching: a receive gets the first message that it accepts and no earlier receive has matched.
struct Plan {
  using Draw = randomized::Draw;
  using Kind = Buffer::Kind;
  struct Sent {
    int tag;
    size_t size;
    Kind kind;
    int mode, pause;
    unsigned seed;
  };
  struct Received {
    int tag;     // or MPI_ANY_TAG
    int source;  // or MPI_ANY_SOURCE
    Kind kind;
    size_t message;
    int pause;
    bool cancelled_before;  // first post and cancel a receive that nothing matches
  };
  std::vector<Sent> sends;
  std::vector<Received> receives;

  Plan(Draw draw, int source) {
    const size_t count = static_cast<size_t>(draw.of({1, 2, 5, 20}));
    for (size_t i = 0; i < count; ++i)
      sends.push_back({draw.below(3), draw_size(draw), draw_kind(draw), draw.below(4), draw_pause(draw),
                       static_cast<unsigned>(draw.number())});
    std::vector<bool> taken(count);
    for (size_t i = 0; i < count; ++i) {
      size_t at = static_cast<size_t>(draw.below(static_cast<int>(count)));
      while (taken[at]) at = (at + 1) % count;
      const bool any_tag = draw.one_in(8);
      const int tag = any_tag ? MPI_ANY_TAG : sends[at].tag;
      for (at = 0; taken[at] || (!any_tag && sends[at].tag != tag);) ++at;
      taken[at] = true;
      receives.push_back({tag, draw.one_in(8) ? MPI_ANY_SOURCE : source, draw_kind(draw), at,
                          draw_pause(draw), draw.one_in(6)});
    }
  }

 private:
  static Kind draw_kind(Draw& draw) {
    if (draw.one_in(4)) return Kind::host;
    return draw.one_in(3) ? Kind::pool : Kind::device;
  }
  static size_t draw_size(Draw& draw) {
    return draw.number() % static_cast<size_t>(draw.of({9, 2000, 40'000, 200'000}));
  }
  static int draw_pause(Draw& draw) { return draw.one_in(3) ? draw.below(300) : 0; }
};

}  // namespace weft::test
