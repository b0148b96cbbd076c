// SPDX-License-Identifier: BSD-3-Clause
// PMI-1 wire: one command a line, "cmd=NAME key=value ...\n". Used by the client and by mpiexec's server.
// Values hold no blank on the wire; escape() makes any bytes fit.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::launch::pmi {

/// Limits we announce as a server and never exceed as a client, in bytes with the closing NUL of C clients.
inline constexpr int kNameMax = 256, kKeyMax = 64, kValueMax = 1024;
/// The longest line either side accepts.
inline constexpr size_t kLineMax = 64 * 1024;

/// One command or reply.
class Message {
 public:
  explicit Message(std::string_view command = {}) : command_(command) {}
  /// Parses a line without its newline. Nothing: no "cmd=" (or "mcmd=") at its start.
  [[nodiscard]] static std::optional<Message> parse(std::string_view line);
  Message& add(std::string_view key, std::string_view value);
  Message& add(std::string_view key, int value) { return add(key, std::string_view(std::to_string(value))); }
  [[nodiscard]] const std::string& command() const { return command_; }
  /// nullptr when absent.
  [[nodiscard]] const std::string* find(std::string_view key) const;
  [[nodiscard]] std::optional<int> find_int(std::string_view key) const;
  /// The line, with its newline.
  [[nodiscard]] std::string line() const;

 private:
  std::string command_;
  std::vector<std::pair<std::string, std::string>> fields_;
};

/// Percent-encodes what PMI-1 parsers may stumble over (blanks, control and non-ASCII bytes, = % ; quotes).
[[nodiscard]] std::string escape(std::string_view bytes);
/// Reverses escape(). Nothing: broken encoding.
[[nodiscard]] std::optional<std::string> unescape(std::string_view text);

/// Cuts a byte stream into lines.
class LineBuffer {
 public:
  void append(std::string_view bytes) { buffer_.append(bytes); }
  /// The next whole line without its newline; nothing: more bytes are needed.
  [[nodiscard]] std::optional<std::string> next();
  [[nodiscard]] bool overfull() const { return buffer_.size() > kLineMax; }
  void clear() { buffer_.clear(); }

 private:
  std::string buffer_;
};

}  // namespace weft::launch::pmi
