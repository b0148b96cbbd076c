// SPDX-License-Identifier: BSD-3-Clause
#include "io/backend/hints.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace weft::io {
namespace {

struct Number {
  std::string_view key;
  int64_t Hints::*value;
  int64_t least;
};
constexpr Number kNumbers[] = {{"cb_buffer_size", &Hints::cb_buffer_size, 1},
                               {"cb_nodes", &Hints::cb_nodes, 0},
                               {"ind_rd_buffer_size", &Hints::ind_rd_buffer_size, 1},
                               {"ind_wr_buffer_size", &Hints::ind_wr_buffer_size, 1},
                               {"striping_factor", &Hints::striping_factor, 0},
                               {"striping_unit", &Hints::striping_unit, 1}};

struct Switch {
  std::string_view key;
  Use Hints::*value;
};
constexpr Switch kSwitches[] = {{"romio_cb_read", &Hints::romio_cb_read},
                                {"romio_cb_write", &Hints::romio_cb_write},
                                {"romio_ds_read", &Hints::romio_ds_read},
                                {"romio_ds_write", &Hints::romio_ds_write}};
/// Hints of ROMIO, OMPIO and MPI 5.0 section 14.2.8 without effect here.
constexpr std::string_view kIgnored[] = {"access_style",
                                         "cb_block_size",
                                         "cb_config_list",
                                         "chunked",
                                         "chunked_item",
                                         "chunked_size",
                                         "collective_buffering",
                                         "direct_io",
                                         "direct_read",
                                         "direct_write",
                                         "file_perm",
                                         "filename",
                                         "io_node_list",
                                         "nb_proc",
                                         "num_io_nodes",
                                         "ompio_cb_buffer_size",
                                         "ompio_num_aggregators",
                                         "romio_cb_alltoall",
                                         "romio_cb_ds_threshold",
                                         "romio_cb_fr_alignment",
                                         "romio_cb_fr_types",
                                         "romio_cb_pfr",
                                         "romio_no_indep_rw",
                                         "start_iodevice",
                                         "romio_lustre_co_ratio",
                                         "romio_lustre_coll_threshold",
                                         "romio_lustre_ds_in_coll",
                                         "cb_lock_mode"};
static_assert(std::size(kIgnored) <= 64);

constexpr std::string_view kWords[] = {"automatic", "enable", "disable"};

Error bad_value(std::string_view key, std::string_view value, const std::string& valid) {
  return {Errc::info_value,
          "the hint " + std::string(key) + " = \"" + std::string(value) + "\" is invalid: use " + valid};
}

}  // namespace

Status Hints::set(std::string_view key, std::string_view value) {
  for (const Number& number : kNumbers) {
    if (number.key != key) continue;
    int64_t parsed = 0;
    const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (failed != std::errc() || end != value.data() + value.size() || parsed < number.least)
      return bad_value(key, value, "an integer of at least " + std::to_string(number.least));
    this->*number.value = parsed;
  }
  for (const Switch& use : kSwitches) {
    if (use.key != key) continue;
    size_t word = 0;
    while (word < std::size(kWords) && kWords[word] != value) ++word;
    if (word == std::size(kWords)) return bad_value(key, value, "automatic, enable or disable");
    this->*use.value = static_cast<Use>(word);
  }
  const auto unused = std::find(std::begin(kIgnored), std::end(kIgnored), key);
  if (unused != std::end(kIgnored)) ignored |= uint64_t{1} << (unused - std::begin(kIgnored));
  return {};
}

std::string_view Hints::name(int hint) {
  const auto i = static_cast<size_t>(hint);
  return i < std::size(kNumbers) ? kNumbers[i].key : kSwitches[i - std::size(kNumbers)].key;
}

std::string Hints::ignored_keys() const {
  std::string keys;
  for (size_t i = 0; i < std::size(kIgnored); ++i)
    if ((ignored >> i & 1) != 0) keys.append(keys.empty() ? "" : ",").append(kIgnored[i]);
  return keys;
}

std::string Hints::text(int hint) const {
  static_assert(std::size(kNumbers) + std::size(kSwitches) == kHints);
  const auto i = static_cast<size_t>(hint);
  if (i < std::size(kNumbers)) return std::to_string(this->*kNumbers[i].value);
  return std::string(kWords[static_cast<size_t>(this->*kSwitches[i - std::size(kNumbers)].value)]);
}

}  // namespace weft::io
