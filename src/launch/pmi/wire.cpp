// SPDX-License-Identifier: BSD-3-Clause
#include "launch/pmi/wire.hpp"

#include <algorithm>
#include <climits>

#include "launch/environment.hpp"

namespace weft::launch::pmi {

namespace {

bool is_plain(unsigned char c) {
  return c > ' ' && c < 0x7f && c != '=' && c != '%' && c != ';' && c != '"' && c != '\'' && c != '\\';
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::optional<Message> Message::parse(std::string_view line) {
  Message message;
  bool first = true;
  while (true) {
    size_t begin = line.find_first_not_of(" \r\t");
    if (begin == std::string_view::npos) break;
    line.remove_prefix(begin);
    std::string_view word = line.substr(0, line.find_first_of(" \r\t"));
    line.remove_prefix(word.size());
    size_t equals = word.find('=');
    std::string_view key = word.substr(0, equals);
    std::string_view value = equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
    if (first) {
      if (key != "cmd" && key != "mcmd") return std::nullopt;
      message.command_ = value;
      first = false;
    } else {
      message.add(key, value);
    }
  }
  if (first || message.command_.empty()) return std::nullopt;
  return message;
}

Message& Message::add(std::string_view key, std::string_view value) {
  fields_.emplace_back(key, value);
  return *this;
}

const std::string* Message::find(std::string_view key) const {
  for (const auto& [name, value] : fields_)
    if (name == key) return &value;
  return nullptr;
}

std::optional<int> Message::find_int(std::string_view key) const {
  const std::string* text = find(key);
  return text == nullptr ? std::nullopt : parse_int(*text, INT_MIN, INT_MAX);
}

std::string Message::line() const {
  std::string text = "cmd=" + command_;
  for (const auto& [key, value] : fields_) text.append(" ").append(key).append("=").append(value);
  return text += '\n';
}

std::string escape(std::string_view bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size());
  for (unsigned char c : bytes) {
    if (is_plain(c)) {
      text += static_cast<char>(c);
    } else {
      text += '%';
      text += kHex[c >> 4];
      text += kHex[c & 15];
    }
  }
  return text;
}

std::optional<std::string> unescape(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      bytes += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return bytes;
}

std::vector<std::pair<std::string, std::string>> split_value(std::string_view key, const std::string& escaped,
                                                             size_t part) {
  std::vector<std::pair<std::string, std::string>> parts;
  size_t begin = 0;
  do {
    const size_t length = std::min(part, escaped.size() - begin);
    const bool last = begin + length == escaped.size();
    parts.emplace_back(
        parts.empty() ? std::string(key) : std::string(key) + "+" + std::to_string(parts.size()),
        (last ? kLastPart : kPartFollows) + escaped.substr(begin, length));
    begin += length;
  } while (begin < escaped.size());
  return parts;
}

std::optional<std::string> LineBuffer::next() {
  size_t end = buffer_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

}  // namespace weft::launch::pmi
