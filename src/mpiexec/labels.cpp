// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/labels.hpp"

#include <cstring>
#include <ctime>

#include "mpiexec/hosts.hpp"
#include "mpiexec/placement.hpp"

namespace weft::mpiexec {

namespace {

/// The current time in a format of strftime().
std::string time_text(const char* format) {
  const time_t now = std::time(nullptr);
  tm local{};
  ::localtime_r(&now, &local);
  char text[64];
  std::strftime(text, sizeof text, format, &local);
  return text;
}

/// The forms of Open MPI, which its options combine.
std::string tag_pattern(const Options& options) {
  std::string text = options.timestamp_output ? "[%c]" : "";
  if (options.labels == Labels::tag) text += "[%j,%r]";
  if (options.labels == Labels::full_tag) text += "[%J@%j,%r]";
  if (options.labels == Labels::rank) text += "[%r]";
  return text.empty() ? text : text + "<%s>: ";
}

}  // namespace

std::string label_pattern(const Options& options) {
  const std::string time = options.timestamp_output ? "[%c] " : "";
  switch (options.labels) {
    case Labels::hydra:
      return time + "[%r] ";
    case Labels::gforker:
      return time + "%r%e>";
    case Labels::pals:
      return time + "%h %r: ";
    case Labels::slurm:
      return time + "%r: ";
    case Labels::time:
      return time + "%t : ";
    case Labels::pattern:
      return time + options.label_pattern;
    default:
      return tag_pattern(options);
  }
}

Status set_label_pattern(Options& options, const std::string& name, const std::string& value) {
  std::string pattern;
  for (size_t i = 0; i < value.size(); ++i) {
    pattern += value[i];
    if (value[i] != '%') continue;
    if (++i == value.size() || std::strchr("rhgpt%", value[i]) == nullptr)
      return bad_value(name, value,
                       "a text with %r the rank, %h the host, %g the process group, %p the proxy, "
                       "%t the time, %% a percent sign");
    pattern += value[i];
  }
  options.labels = Labels::pattern;
  options.label_pattern = pattern;
  return {};
}

std::string label_text(const std::string& pattern, const LabelledStream& stream,
                       const std::string& job_name) {
  std::string text;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char field = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[++i] : '\0';
    switch (field) {
      case '\0':
        text += pattern[i];
        break;
      case 'r':
        text += std::to_string(stream.rank);
        break;
      case 'h':
        text += host_name();
        break;
      case 'j':
        text += std::to_string(stream.job);
        break;
      case 'g':
        text += std::to_string(stream.job - 1);
        break;
      case 'p':
        text += '0';
        break;  // all processes of one host have the same proxy
      case 'J':
        text += job_name;
        break;
      case 's':
        text += stream.is_error ? "stderr" : "stdout";
        break;
      case 'e':
        text += stream.is_error ? "(err)" : "";
        break;
      case 't':
        text += time_text("%F %T");
        break;
      case 'c':
        text += time_text("%a %b %e %T %Y");
        break;
      default:
        text += field;
    }
  }
  return text;
}

}  // namespace weft::mpiexec
