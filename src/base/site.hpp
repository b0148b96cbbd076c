// SPDX-License-Identifier: BSD-3-Clause
// Settings of a site for all users of a machine or of an installation: /etc/weft.conf and
// PREFIX/etc/weft.conf, with lines such as `net.ucx_library = /opt/ucx/lib/libucp.so.0`. Weaker than profiles
// and the environment.
#pragma once
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/result.hpp"

namespace weft::config {

/// A file that may hold settings. They may name libraries to load, so the file must belong to root, or to the
/// owner of `trusted`, and be writable by its owner only.
struct SiteFile {
  std::string path;
  std::string trusted;  ///< file or folder whose owner decides about this process anyway
};

/// Returns /etc/weft.conf and the file of the installation of this library, which beats it.
[[nodiscard]] std::vector<SiteFile> site_files();

struct SiteValue {
  std::string name, text;
  std::string file;
  int line;
};
/// Returns the values in the order of the files; a missing file has none. An untrusted or unreadable file and
/// a malformed line are errors that name it.
[[nodiscard]] Result<std::vector<SiteValue>> read_site_files(const std::vector<SiteFile>& files);

/// Sets the settings that the environment does not set from the site's files; their origin is then a file
/// (Origin::profile). An unknown setting and a bad value are errors that name file and line.
[[nodiscard]] Status apply_site_files(const std::vector<SiteFile>& files);
/// A profile replaces the site's value of a setting.
void replace_site_value(const Setting& setting);

/// Returns the file of the site that set it, else "default", "profile", "environment" or "tool".
[[nodiscard]] std::string origin_text(const Setting& setting);

}  // namespace weft::config
