// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/config_file.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/text_file.hpp"

namespace weft::mpiexec {

namespace {

struct Word {
  std::string text;
  bool quoted = false;
};

/// Words of a line, with quotes as in a shell.
Result<std::vector<Word>> split_quoted(const std::string& line) {
  std::vector<Word> words;
  Word word;
  char quote = 0;
  bool open = false;
  for (const char c : line) {
    if (quote != 0 ? c == quote : c == '"' || c == '\'') {
      quote = quote != 0 ? '\0' : c;
      open = word.quoted = true;
    } else if (quote == 0 && (c == ' ' || c == '\t')) {
      if (open) words.push_back(std::exchange(word, {}));
      open = false;
    } else {
      word.text += c;
      open = true;
    }
  }
  if (quote != 0) return Error(Errc::arg, std::string("the quote ") + quote + " has no end in: " + line);
  if (open) words.push_back(word);
  return words;
}

bool is_separator(const Word& word) { return !word.quoted && word.text == ":"; }

/// Reads a line, and the next ones if a backslash at its end continues it; without carriage returns of
/// Windows.
bool next_line(std::istream& file, std::string& line) {
  line.clear();
  bool found = false;
  for (std::string part; std::getline(file, part);) {
    found = true;
    if (part.ends_with('\r')) part.pop_back();
    const bool remark = line.empty() && part.find_first_not_of(" \t") == part.find('#');
    const bool goes_on = !remark && part.ends_with('\\');
    if (goes_on) part.back() = ' ';
    line += part;
    if (!goes_on) break;
  }
  return found;
}

}  // namespace

std::vector<std::string> split_programs(std::vector<std::string> arguments) {
  std::replace(arguments.begin(), arguments.end(), std::string(":"), kNextProgram);
  return arguments;
}

bool names_file(const std::string& option) {
  const std::string name = option.substr(std::min(option.find_first_not_of('-'), option.size()));
  const std::string word = name.substr(0, name.find('='));
  return word == "configfile" || word == "app";
}

Result<size_t> insert_file(std::vector<std::string>& arguments, size_t i,
                           std::vector<std::string>& warnings) {
  const size_t equals = arguments[i].find('=');
  const std::string option = arguments[i].substr(0, equals);
  if (equals == std::string::npos && i + 1 == arguments.size())
    return Error(Errc::arg, option + " needs a value: " + option + " FILE");
  if (equals == std::string::npos && arguments[i + 1].starts_with("-"))
    return Error(Errc::arg, option + " needs a value: " + option + " FILE (the next word, '" +
                                arguments[i + 1] + "', is an option)");
  const std::string path = equals == std::string::npos ? arguments[i + 1] : arguments[i].substr(equals + 1);
  auto text = read_text_file(path, Errc::file);
  if (!text) return Error(Errc::file, option + ": " + text.error().message());
  std::istringstream file(*text);
  std::vector<std::string> of_file;
  for (std::string line; next_line(file, line);) {
    auto words = split_quoted(line);
    if (!words) return Error(Errc::arg, option + " " + path + ": " + words.error().message());
    if (words->empty() || words->front().text.starts_with("#")) continue;
    // Files that were written as a command line have separators at the end or begin of lines.
    if (is_separator(words->front())) words->erase(words->begin());
    if (!words->empty() && is_separator(words->back())) words->pop_back();
    if (words->empty()) continue;
    if (std::any_of(words->begin(), words->end(), is_separator))
      warnings.push_back(option + " " + path +
                         ": ':' inside a line is an argument of its program; another program " +
                         "has a line of its own");
    if (!of_file.empty()) of_file.push_back(kNextProgram);
    for (const Word& word : *words) of_file.push_back(word.text);
  }
  const auto at = arguments.begin() + static_cast<std::ptrdiff_t>(i);
  arguments.insert(arguments.erase(at, at + (equals == std::string::npos ? 2 : 1)), of_file.begin(),
                   of_file.end());
  return of_file.size();
}

}  // namespace weft::mpiexec
