// SPDX-License-Identifier: BSD-3-Clause
#include "launch/pmi/spawn.hpp"

#include <algorithm>
#include <climits>
#include <utility>

#include "launch/environment.hpp"
#include "launch/spawn_info.hpp"

namespace weft::launch::pmi {
namespace {

constexpr size_t kParentPart = 900;  // bytes of a part of the parent's value: below kValueMax
constexpr size_t kMaxPids = 4096;    // in a reply, which is one line

/// Collects lines "key=value".
class Lines {
 public:
  explicit Lines(bool escaped) : escaped_(escaped) {}
  void add(const std::string& key, int value) { text_ += key + "=" + std::to_string(value) + "\n"; }
  void add(const std::string& key, const std::string& value) {
    const std::string sent = escaped_ ? escape(value) : value;
    valid_ = valid_ && sent.find('\n') == std::string::npos && sent.size() < kLineMax - 100;
    valid_ = valid_ && (escaped_ || !sent.empty());  // Hydra ends the job at a line without a value
    text_ += key + "=" + sent + "\n";
  }
  /// Text that needs no escaping.
  void add_plain(const std::string& text) { text_ += text + "\n"; }
  [[nodiscard]] bool valid() const { return valid_; }
  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  std::string text_;
  bool escaped_, valid_ = true;
};

}  // namespace

Result<std::string> spawn_lines(const SpawnRequest& request, bool weft_mpiexec) {
  Lines lines(weft_mpiexec);
  const Values parent = split_value(kParentKey, escape(request.parent_value), kParentPart);
  int number = 0;
  for (const SpawnProgram& program : request.programs) {
    lines.add_plain("mcmd=spawn");
    lines.add("nprocs", program.processes);
    lines.add("execname", program.command);
    lines.add("totspawns", static_cast<int>(request.programs.size()));
    lines.add("spawnssofar", ++number);
    for (size_t i = 0; i < program.arguments.size(); ++i)
      lines.add("arg" + std::to_string(i + 1), program.arguments[i]);
    lines.add("argcnt", static_cast<int>(program.arguments.size()));
    lines.add("preput_num", static_cast<int>(parent.size()));
    for (size_t i = 0; i < parent.size(); ++i) {
      lines.add_plain("preput_key_" + std::to_string(i) + "=" + parent[i].first);
      lines.add_plain("preput_val_" + std::to_string(i) + "=" + parent[i].second);
    }
    Values info = program.info;
    // The only name of the key that Hydra reads.
    if (value_of(info, {"wdir"}) == nullptr) info.emplace_back("wdir", directory_of(info, request.directory));
    lines.add("info_num", static_cast<int>(info.size()));
    for (size_t i = 0; i < info.size(); ++i) {
      lines.add("info_key_" + std::to_string(i), info[i].first);
      lines.add("info_val_" + std::to_string(i), info[i].second);
    }
    lines.add_plain("endcmd");
  }
  if (lines.valid()) return std::move(lines).text();
  return Error(
      Errc::spawn,
      "a command, an argument or an info value cannot be sent to the launcher (it is too long, or it "
      "is empty or has a line end, which only Weft's mpiexec takes)");
}

bool SpawnReader::add(std::string_view line) {
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view key = line.substr(0, equals), raw = line.substr(equals + 1);
  if (key.starts_with("preput_")) {  // the same in all blocks
    if (!request_.programs.empty()) return true;
    if (key.starts_with("preput_key_")) stored_.emplace_back(raw, "");
    if (key.starts_with("preput_val_") && !stored_.empty()) stored_.back().second = raw;
    return true;
  }
  auto value = unescape(raw);
  if (!value) return false;
  if (key == "nprocs") {
    program_.processes = parse_int(*value, 1, INT_MAX).value_or(0);
    return program_.processes != 0;
  }
  if (key == "totspawns") {
    programs_ = static_cast<size_t>(parse_int(*value, 1, INT_MAX).value_or(0));
    return programs_ != 0;
  }
  if (key == "execname") {
    program_.command = std::move(*value);
  } else if (key.starts_with("info_key_")) {
    program_.info.emplace_back(std::move(*value), "");
  } else if (key.starts_with("info_val_")) {
    if (program_.info.empty()) return false;
    program_.info.back().second = std::move(*value);
  } else if (key.starts_with("arg") && key != "argcnt") {
    program_.arguments.push_back(std::move(*value));
  }
  return true;
}

std::optional<SpawnRequest> SpawnReader::end_block() {
  request_.programs.push_back(std::exchange(program_, {}));
  if (request_.programs.size() < programs_) return std::nullopt;
  programs_ = 0;
  return std::exchange(request_, {});
}

Values SpawnReader::take_stored() { return std::exchange(stored_, {}); }

Message spawn_reply(const Spawned& spawned) {
  std::string started, pids;
  for (const bool one : spawned.started) started += one ? '1' : '0';
  if (spawned.pids.size() <= kMaxPids)
    for (const int pid : spawned.pids) pids += (pids.empty() ? "" : ",") + std::to_string(pid);
  const bool any = started.find('1') != std::string::npos;
  Message reply("spawn_result");
  reply.add("rc", any ? 0 : -1).add("pids", pids);
  if (any && started.find('0') != std::string::npos) reply.add("started", started);  // else rc says it
  return reply.add("problem", escape(spawned.problem));
}

Spawned parse_spawn_reply(const Message& reply, int processes) {
  Spawned spawned;
  const bool any = reply.find_int("rc").value_or(0) == 0;
  if (any) spawned.started.assign(static_cast<size_t>(processes), true);
  if (const std::string* started = reply.find("started"))
    for (size_t i = 0; i < spawned.started.size(); ++i)
      spawned.started[i] = i < started->size() && (*started)[i] == '1';
  if (const std::string* list = reply.find("pids"))
    for (size_t begin = 0; begin < list->size();) {
      const size_t end = std::min(list->find(',', begin), list->size());
      spawned.pids.push_back(parse_int(list->substr(begin, end - begin), 1, INT_MAX).value_or(0));
      begin = end + 1;
    }
  if (const std::string* problem = reply.find("problem"))
    spawned.problem = unescape(*problem).value_or(*problem);
  else if (!any)
    spawned.problem = "the launcher could not start the processes: see its own messages";
  return spawned;
}

}  // namespace weft::launch::pmi
