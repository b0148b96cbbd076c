// SPDX-License-Identifier: BSD-3-Clause
#include "base/site.hpp"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/text_file.hpp"

namespace weft::config {
namespace {

constexpr const char* kName = "etc/weft.conf";

std::string_view without_blanks(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

Status check_owner(const SiteFile& file, const struct stat& status) {
  const auto refused = [&](const std::string& reason, const std::string& remedy) {
    return Error(Errc::arg, file.path + " is refused (" + reason + "): " + remedy);
  };
  if (!S_ISREG(status.st_mode)) return refused("it is no regular file", "replace it by a file, or remove it");
  struct stat trusted {};
  const bool known = ::stat(file.trusted.c_str(), &trusted) == 0;
  if (status.st_uid != 0 && !(known && status.st_uid == trusted.st_uid))
    return refused("it belongs to user " + std::to_string(status.st_uid) +
                       ", neither to root nor to the owner of " + file.trusted,
                   "as root: chown root " + file.path + ", or remove it");
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return refused("others than its owner can write it", "chmod go-w " + file.path);
  return {};
}

Status read_file(const SiteFile& file, std::vector<SiteValue>& values) {
  struct stat status {};
  if (::stat(file.path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return {};
    return Error(Errc::arg,
                 file.path + " cannot be read (" + std::strerror(errno) + "): correct its permissions");
  }
  WEFT_TRY(check_owner(file, status));
  auto text = read_text_file(file.path, Errc::arg);
  if (!text) return Error(Errc::arg, text.error().message() + ": correct its permissions, chmod a+r");
  std::istringstream lines(*text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string_view words = without_blanks(line);
    if (words.empty() || words[0] == '#') continue;
    const auto equals = words.find('=');
    if (equals == words.npos || equals == 0)
      return Error(Errc::arg, file.path + ":" + std::to_string(number) + ": \"" + line +
                                  "\" is not setting = value: correct or remove the line");
    values.push_back({std::string(without_blanks(words.substr(0, equals))),
                      std::string(without_blanks(words.substr(equals + 1))), file.path, number});
  }
  return {};
}

/// The files of settings that have a value of the site.
std::map<const Setting*, std::string>& site_origins() {
  static std::map<const Setting*, std::string> origins;
  return origins;
}

}  // namespace

std::vector<SiteFile> site_files() {
  std::vector<SiteFile> files = {{std::string("/") + kName, "/etc"}};
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&site_files), &info) == 0 || info.dli_fname == nullptr)
    return files;
  const std::string library = info.dli_fname;  // PREFIX/lib/libmpi_abi.so.1
  const size_t folder = library.rfind('/');
  const size_t prefix = folder == library.npos || folder == 0 ? library.npos : library.rfind('/', folder - 1);
  if (prefix != library.npos && prefix != 0)
    files.push_back({library.substr(0, prefix + 1) + kName, library});
  return files;
}

Result<std::vector<SiteValue>> read_site_files(const std::vector<SiteFile>& files) {
  std::vector<SiteValue> values;
  for (const SiteFile& file : files) WEFT_TRY(read_file(file, values));
  return values;
}

Status apply_site_files(const std::vector<SiteFile>& files) {
  site_origins().clear();
  auto values = read_site_files(files);
  if (!values) return std::move(values).error();
  const std::vector<Setting*> settings = all();
  for (const SiteValue& value : *values) {
    const std::string place = value.file + ":" + std::to_string(value.line) + ": ";
    const auto found = std::find_if(settings.begin(), settings.end(), [&](const Setting* one) {
      return value.name == one->name || value.name == one->variable();
    });
    if (found == settings.end())
      return Error(Errc::arg, place + value.name +
                                  " is not a setting of this version: see `weft info --config` for the list");
    Setting& setting = **found;
    if (setting.origin == Origin::environment || setting.origin == Origin::tool) continue;
    if (const Status parsed = setting.parse(value.text); !parsed)
      return Error(Errc::arg, place + parsed.error().message());
    setting.origin = Origin::profile;
    site_origins()[&setting] = value.file;
  }
  return {};
}

void replace_site_value(const Setting& setting) { site_origins().erase(&setting); }

std::string origin_text(const Setting& setting) {
  const auto found = site_origins().find(&setting);
  return found != site_origins().end() && setting.origin == Origin::profile ? found->second
                                                                            : name_of(setting.origin);
}

}  // namespace weft::config
