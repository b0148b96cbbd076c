// SPDX-License-Identifier: BSD-3-Clause
// Info: an ordered map from keys to values (MPI 5.0 chapter 10).
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/slab.hpp"
#include "core/reference.hpp"

namespace weft::core {

class Info final : public Counted {
 public:
  void set(std::string_view key, std::string_view value);
  [[nodiscard]] std::optional<std::string_view> get(std::string_view key) const;
  bool erase(std::string_view key);
  [[nodiscard]] size_t size() const { return entries_.size(); }
  [[nodiscard]] const std::pair<std::string, std::string>& entry(size_t n) const { return entries_[n]; }

  static Info* create();
  static Info* duplicate(const Info& other);
  /// MPI_INFO_ENV: how the program was started (MPI 5.0 section 11.5.2), as far as this process can
  /// determine. MPI initialization adds maxprocs, thread_level and mpi_initial_errhandler. Never destroyed.
  static Info* environment();
  /// The same for a given nonempty argument vector (MPI_Info_create_env), without the keys added by MPI
  /// initialization.
  static Info* create_environment(const std::vector<std::string>& arguments);
  static Slab<Info>& slab();

 private:
  void destroy() override;
  std::vector<std::pair<std::string, std::string>> entries_;
};

}  // namespace weft::core
