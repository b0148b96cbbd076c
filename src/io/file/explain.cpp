// SPDX-License-Identifier: BSD-3-Clause
#include "io/file/explain.hpp"

#include <fcntl.h>

#include <cerrno>
#include <sstream>
#include <string_view>

#include "base/json.hpp"
#include "device/memory.hpp"
#include "io/backend/cufile_library.hpp"
#include "io/backend/descriptor.hpp"
#include "io/backend/error.hpp"
#include "io/backend/file_system.hpp"

namespace weft::io {
namespace {

struct Query {
  bool device = false;
  std::string path;
};

Result<Query> parse(const std::string& text) {
  Query query;
  const size_t path = text.find("path=");
  const std::string kind = text.substr(0, path);
  if (path == std::string::npos || (kind != "kind=cuda " && kind != "kind=host "))
    return Error(Errc::arg, "'" + text + "' is not valid: use kind=host or kind=cuda, then path=PATH");
  query.device = kind == "kind=cuda ";
  query.path = text.substr(path + 5);
  return query;
}

/// Opens the file, or the folder in which it would be created. `exists`: whether the file exists.
Status open_near(const std::string& path, Descriptor& file, bool& exists) {
  int number = file.open(path, O_RDWR);
  if (number == EACCES || number == EROFS || number == EISDIR) number = file.open(path, O_RDONLY);
  exists = number == 0;
  if (number == ENOENT) {
    const size_t slash = path.rfind('/');
    number = file.open(slash == std::string::npos ? "." : path.substr(0, slash + 1), O_RDONLY);
  }
  return number == 0 ? Status() : system_error("open", path, number);
}

/// Why cuFile does not move the bytes of GPU memory; empty: it does, where a checked read succeeds.
std::string no_cufile() {
  if (!device::available()) return device::absence();
  if (cufile::disabled()) return "WEFT_IO_CUFILE=off";
  return cufile::library().why_not;
}

}  // namespace

Result<std::string> explain(const std::string& text) {
  auto query = parse(text);
  if (!query) return std::move(query).error();
  Descriptor file;
  bool exists = false;
  WEFT_TRY(open_near(query->path, file, exists));
  const bool local = on_local_file_system(file);
  std::ostringstream out;
  out << "{\"path\": " << json_string(query->path) << ", \"exists\": " << (exists ? "true" : "false")
      << ", \"kind\": \"" << (query->device ? "cuda" : "host")
      << "\", \"file_system\": " << json_string(file_system_name(file))
      << ", \"local\": " << (local ? "true" : "false");
  const Stripes stripes = stripes_of(file);
  if (stripes.count > 0)
    out << ", \"striping_factor\": " << stripes.count << ", \"striping_unit\": " << stripes.bytes;
  if (query->device) {
    const std::string why_not = no_cufile();
    out << ", \"gpu_path\": \"" << (why_not.empty() ? "cufile" : "pinned chunks")
        << "\", \"no_cufile\": " << json_string(why_not);
  }
  out << ", \"records\": \"" << (local ? "mapping" : "system calls") << "\"";
  out << ", \"overwrites\": \"" << (in_memory(file) ? "mapping" : "system calls") << "\"";
  out << ", \"interleaved\": \"" << (local ? "direct" : "two-phase") << "\"}";
  return out.str();
}

}  // namespace weft::io
