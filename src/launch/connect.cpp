// SPDX-License-Identifier: BSD-3-Clause
#include <cstdlib>
#include <string>
#include <vector>

#include "launch/environment.hpp"
#include "launch/fake_hosts.hpp"
#include "launch/launch.hpp"
#include "launch/pmi/client.hpp"
#include "launch/pmix/client.hpp"
#include "launch/singleton/singleton.hpp"

namespace weft::launch {

namespace {

Result<std::unique_ptr<Exchange>> find_launcher() {
  Lookup lookup = [](const char* name) -> const char* { return std::getenv(name); };
  if (pmi::offered(lookup)) return pmi::connect(lookup);
  if (pmix::offered(lookup)) return pmix::connect(lookup);
  WEFT_TRY(refuse_broken_promise(lookup));
  return singleton::create();
}

}  // namespace

Result<std::unique_ptr<Exchange>> connect() {
  auto exchange = find_launcher();
  if (!exchange) return exchange;
  return split_hosts(std::move(*exchange));
}

void scrub_environment() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string_view text = *entry;
    std::string_view name = text.substr(0, text.find('='));
    if (promises_job(name)) names.emplace_back(name);
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

}  // namespace weft::launch
