// SPDX-License-Identifier: BSD-3-Clause
// Format: the number of words, of arguments and of CPUs in decimal, the directory, the arguments, the CPUs,
// the environment; each text ends with a zero byte.
#include "mpiexec/plan_file.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "base/local_socket.hpp"
#include "launch/environment.hpp"

namespace weft::mpiexec {
namespace {

void append(std::string& text, const std::string& word) {
  text += word;
  text += '\0';
}

/// Takes words from a text.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}
  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  std::optional<std::string> word() {
    const size_t end = rest_.find('\0');
    if (end == std::string_view::npos) return std::nullopt;
    std::string word(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return word;
  }
  std::optional<int> number() {
    const auto text = word();
    return text ? launch::parse_int(*text, 0, INT_MAX) : std::nullopt;
  }

 private:
  std::string_view rest_;
};

std::optional<RankPlan> parse(std::string_view text) {
  Reader reader(text);
  RankPlan plan;
  const auto arguments = reader.number(), cpus = reader.number();
  const auto directory = reader.word();
  if (!arguments || !cpus || !directory) return std::nullopt;
  plan.directory = *directory;
  for (int i = 0; i < *arguments; ++i) {
    auto word = reader.word();
    if (!word) return std::nullopt;
    plan.argv.push_back(std::move(*word));
  }
  for (int i = 0; i < *cpus; ++i) {
    const auto cpu = reader.number();
    if (!cpu) return std::nullopt;
    plan.cpus.push_back(*cpu);
  }
  while (!reader.at_end()) {
    auto word = reader.word();
    if (!word) return std::nullopt;
    plan.environment.push_back(std::move(*word));
  }
  return plan;
}

}  // namespace

int write_plan(const RankPlan& plan) {
  std::string text;
  append(text, std::to_string(plan.argv.size()));
  append(text, std::to_string(plan.cpus.size()));
  append(text, plan.directory);
  for (const std::string& argument : plan.argv) append(text, argument);
  for (const int cpu : plan.cpus) append(text, std::to_string(cpu));
  for (const std::string& variable : plan.environment) append(text, variable);
  const int file = ::memfd_create("weft-plan", MFD_CLOEXEC);
  if (file < 0) return -1;
  for (size_t done = 0; done < text.size();) {
    const ssize_t n =
        local_socket::retry_on_eintr([&] { return ::write(file, text.data() + done, text.size() - done); });
    if (n <= 0) {
      const int error = errno;
      ::close(file);
      errno = error;
      return -1;
    }
    done += static_cast<size_t>(n);
  }
  return file;
}

std::optional<RankPlan> read_plan(int file) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return std::nullopt;
  std::string text(static_cast<size_t>(status.st_size), '\0');
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = local_socket::retry_on_eintr(
        [&] { return ::pread(file, text.data() + done, text.size() - done, static_cast<off_t>(done)); });
    if (n <= 0) return std::nullopt;
    done += static_cast<size_t>(n);
  }
  return parse(text);
}

}  // namespace weft::mpiexec
