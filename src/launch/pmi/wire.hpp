// SPDX-License-Identifier: BSD-3-Clause
// PMI-1 wire format: each line is one command, "cmd=NAME key=value ...\n". The client and mpiexec's server
// use it. Values must not contain blanks; escape() encodes arbitrary bytes.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::launch::pmi {

/// Limits reported by the server and observed by the client, in bytes including the final NUL of C clients.
inline constexpr int kNameMax = 256, kKeyMax = 64, kValueMax = 1024;
/// Longest accepted line, in bytes.
inline constexpr size_t kLineMax = 64 * 1024;

/// One command or reply.
class Message {
 public:
  explicit Message(std::string_view command = {}) : command_(command) {}
  /// Parses a line without its newline; nullopt if it does not start with "cmd=" or "mcmd=".
  [[nodiscard]] static std::optional<Message> parse(std::string_view line);
  Message& add(std::string_view key, std::string_view value);
  Message& add(std::string_view key, int value) { return add(key, std::string_view(std::to_string(value))); }
  [[nodiscard]] const std::string& command() const { return command_; }
  /// Returns the value of a key, nullptr if absent.
  [[nodiscard]] const std::string* find(std::string_view key) const;
  [[nodiscard]] std::optional<int> find_int(std::string_view key) const;
  /// Returns the line including its newline.
  [[nodiscard]] std::string line() const;

 private:
  std::string command_;
  std::vector<std::pair<std::string, std::string>> fields_;
};

/// The key by which Hydra and Weft's mpiexec tell the ranks that have ended without finalize: "2,5-7".
inline constexpr const char* kDeadProcessesKey = "PMI_dead_processes";

/// Percent-encodes bytes with a meaning in PMI-1 (blanks, control and non-ASCII bytes, = % ; quotes).
[[nodiscard]] std::string escape(std::string_view bytes);
/// Reverses escape(); nullopt if malformed.
[[nodiscard]] std::optional<std::string> unescape(std::string_view text);

/// The first character of every part of a stored value tells whether another part follows.
inline constexpr char kPartFollows = '+', kLastPart = '.';
/// The parts, as (key, value), in which a put stores an escaped value: `part` bytes of it each.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> split_value(std::string_view key,
                                                                           const std::string& escaped,
                                                                           size_t part);

/// Splits a byte stream into lines.
class LineBuffer {
 public:
  void append(std::string_view bytes) { buffer_.append(bytes); }
  /// Returns the next complete line without its newline; nullopt: more bytes are needed.
  [[nodiscard]] std::optional<std::string> next();
  [[nodiscard]] bool overfull() const { return buffer_.size() > kLineMax; }
  void clear() { buffer_.clear(); }

 private:
  std::string buffer_;
};

}  // namespace weft::launch::pmi
