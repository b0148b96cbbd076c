// SPDX-License-Identifier: BSD-3-Clause
// The programs of a spawned job in PMIx's structures, with the text that these point to.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "launch/launch.hpp"
#include "launch/pmix/abi.hpp"

namespace weft::launch::pmix {

/// Environment variable of the new processes: SpawnRequest::parent_value.
inline constexpr const char* kParentVariable = "WEFT_JOB_PARENT";

/// A string attribute; `value` has to outlive it. Precondition: the key is shorter than kKeyBytes.
[[nodiscard]] Info string_info(const char* key, const std::string& value);

class SpawnApps {
 public:
  /// Errc::spawn: a value of an info key is malformed.
  [[nodiscard]] static Result<SpawnApps> create(const SpawnRequest& request);
  [[nodiscard]] const std::vector<App>& apps() const { return apps_; }
  /// Attributes of the whole job.
  [[nodiscard]] const std::vector<Info>& job() const { return job_; }

 private:
  SpawnApps() = default;
  [[nodiscard]] Status add(const SpawnProgram& program, const SpawnRequest& request);
  [[nodiscard]] char* keep(std::string text) { return texts_.emplace_back(std::move(text)).data(); }
  [[nodiscard]] char** keep_list(const std::vector<std::string>& texts);

  std::deque<std::string> texts_;  // and the others: what apps_ and job_ point to
  std::deque<std::vector<char*>> lists_;
  std::deque<std::vector<Info>> infos_;
  std::vector<App> apps_;
  std::vector<Info> job_;
};

}  // namespace weft::launch::pmix
