// SPDX-License-Identifier: BSD-3-Clause
#include "base/log.hpp"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>

#include "base/config.hpp"
#include "base/events.hpp"
#include "base/scope.hpp"

namespace weft::log {
namespace {
config::Choice level_setting{
    "log",
    static_cast<int>(Level::warn),
    {"none", "error", "warn", "info", "debug"},
    "Least severe level of messages written to stderr; none: no output.",
    "you look for the cause of a problem (info, debug) or want no output from the library (none)"};
const config::Adjustable adjustable{"log"};
events::Event slow_path("core.slow_path", "A slow path is taken",
                        {{"variable", events::Type::counter}, {"uses", events::Type::amount}});
int this_rank = -1;
}  // namespace

bool enabled(Level level) { return static_cast<int>(level) <= level_setting.index(); }

void write(Level level, const char* format, ...) {
  if (!enabled(level)) return;
  char line[1024];
  int used = this_rank >= 0 ? std::snprintf(line, sizeof line, "weft[%d]: ", this_rank)
                            : std::snprintf(line, sizeof line, "weft: ");
  va_list arguments;
  va_start(arguments, format);
  used += std::vsnprintf(line + used, sizeof line - static_cast<size_t>(used) - 1, format, arguments);
  va_end(arguments);
  if (used > static_cast<int>(sizeof line) - 2) used = static_cast<int>(sizeof line) - 2;
  line[used++] = '\n';
  [[maybe_unused]] const auto written = ::write(
      STDERR_FILENO, line, static_cast<size_t>(used));  // one write per line keeps lines of ranks apart
}

void set_rank(int rank) { this_rank = rank; }

void SlowPath::hit(std::string_view reason) {
  const uint64_t before = uses_.add_shared();
  if (slow_path.wanted()) [[unlikely]]
    slow_path.raise({reinterpret_cast<uint64_t>(&uses_), before + 1});
  if (before != 0) return;
  write(Level::warn, "slow path %s (%.*s): %s", uses_.name(), static_cast<int>(reason.size()), reason.data(),
        uses_.help());
}

}  // namespace weft::log
