// SPDX-License-Identifier: BSD-3-Clause
// Hints: the info keys of files, under ROMIO's names. docs/files.md has the table.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace weft::io {

/// ROMIO's "automatic", "enable", "disable".
enum class Use : int { automatic, enable, disable };

/// Plain data: rank 0 broadcasts its hints, so that collective calls are planned alike on all ranks.
struct Hints {
  int64_t cb_buffer_size = int64_t{16} << 20;       ///< bytes that an aggregator accesses at once
  int64_t cb_nodes = 0;                             ///< number of aggregators; 0: up to 4 for each host
  int64_t ind_rd_buffer_size = int64_t{4} << 20;    ///< largest span of a read with data sieving, in bytes
  int64_t ind_wr_buffer_size = int64_t{512} << 10;  ///< the same for writes
  int64_t striping_factor = 0;                      ///< Lustre: servers of a new file; 0: of its folder
  int64_t striping_unit = 4096;                     ///< alignment of the aggregators' parts, in bytes
  Use romio_cb_read = Use::automatic, romio_cb_write = Use::automatic;
  Use romio_ds_read = Use::automatic, romio_ds_write = Use::automatic;
  uint64_t ignored = 0;  ///< keys of other libraries without effect here that the program has set; bits

  /// Sets one hint. Unknown keys are ignored; the keys of ROMIO and OMPIO are remembered.
  /// Errc::info_value: the value is invalid.
  [[nodiscard]] Status set(std::string_view key, std::string_view value);
  /// Calls visit(key, value) for each hint, and for "weft_ignored_hints", the keys without effect, if any.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (int i = 0; i < kHints; ++i) visit(name(i), text(i));
    if (ignored != 0) visit(std::string_view("weft_ignored_hints"), ignored_keys());
  }

 private:
  static constexpr int kHints = 10;
  [[nodiscard]] static std::string_view name(int hint);
  [[nodiscard]] std::string text(int hint) const;
  [[nodiscard]] std::string ignored_keys() const;  ///< separated by commas
};

}  // namespace weft::io
