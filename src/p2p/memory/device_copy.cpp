// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/memory/device_copy.hpp"

#include <utility>

#include "p2p/memory/limit.hpp"

namespace weft::p2p {

Status pack_out(const Transfer& t, std::byte* to) {
  if (t.bytes == 0) return {};
  if (!device_side(t)) return t.pack(0, to, t.bytes), Status{};
  auto ticket = copy::submit(copy::plain(to), view_of(t), t.bytes, device::StreamRole::out);
  return ticket ? device::wait(*ticket) : Status(std::move(ticket).error());
}

}  // namespace weft::p2p
