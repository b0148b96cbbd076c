// SPDX-License-Identifier: BSD-3-Clause
#include "launch/cpus.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>

#include "launch/environment.hpp"

namespace weft::launch {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<int> allowed_cpus(pid_t process) {
  // The kernel rejects sets smaller than its own: enlarge until it succeeds.
  for (int capacity = 1024; capacity <= kMaxCpus; capacity *= 4) {
    std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(static_cast<size_t>(capacity)),
                                                         [](cpu_set_t* s) { CPU_FREE(s); });
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
    if (::sched_getaffinity(process, bytes, set.get()) != 0) continue;
    std::vector<int> cpus;
    for (int cpu = 0; cpu < capacity; ++cpu)
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set.get())) cpus.push_back(cpu);
    return cpus;
  }
  return {};
}

std::optional<std::vector<int>> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  std::stringstream stream(text);
  for (std::string range; std::getline(stream, range, ',');) {
    const size_t dash = range.find('-');
    auto first = parse_int(std::string_view(range).substr(0, dash), 0, kMaxCpus);
    auto last = dash == range.npos ? first : parse_int(range.substr(dash + 1), 0, kMaxCpus);
    if (!first || !last || *last < *first) return std::nullopt;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::string format_cpu_list(std::vector<int> cpus) {
  std::sort(cpus.begin(), cpus.end());
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[i]);
    if (last > i) text += '-' + std::to_string(cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace weft::launch
