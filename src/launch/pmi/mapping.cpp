// SPDX-License-Identifier: BSD-3-Clause
#include "launch/pmi/mapping.hpp"

#include <charconv>

namespace weft::launch::pmi {

namespace {

struct Block {
  int first_host, hosts, ranks_per_host;
};

/// Removes `literal` from the front of `text`; false if it is not there.
bool consume(std::string_view& text, std::string_view literal) {
  if (text.substr(0, literal.size()) != literal) return false;
  text.remove_prefix(literal.size());
  return true;
}

bool consume_int(std::string_view& text, int low, int& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < low) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool consume_block(std::string_view& text, Block& block) {
  return consume(text, "(") && consume_int(text, 0, block.first_host) && consume(text, ",") &&
         consume_int(text, 1, block.hosts) && consume(text, ",") &&
         consume_int(text, 1, block.ranks_per_host) && consume(text, ")");
}

}  // namespace

std::optional<std::vector<int>> parse_mapping(std::string_view text, int size) {
  if (!consume(text, "(vector")) return std::nullopt;
  std::vector<Block> blocks;
  while (consume(text, ",")) {
    Block block{};
    if (!consume_block(text, block)) return std::nullopt;
    blocks.push_back(block);
  }
  if (!consume(text, ")") || !text.empty() || blocks.empty()) return std::nullopt;
  std::vector<int> host_of_rank;
  host_of_rank.reserve(static_cast<size_t>(size));
  auto full = [&] { return host_of_rank.size() >= static_cast<size_t>(size); };
  while (!full())
    for (const Block& block : blocks)
      for (int host = 0; host < block.hosts && !full(); ++host)
        for (int i = 0; i < block.ranks_per_host && !full(); ++i)
          host_of_rank.push_back(block.first_host + host);
  return host_of_rank;
}

std::string one_host_mapping(int size) { return "(vector,(0,1," + std::to_string(size) + "))"; }

}  // namespace weft::launch::pmi
