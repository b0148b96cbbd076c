// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ucx/candidates.hpp"

#include <dlfcn.h>
#include <errno.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "launch/launcher_folder.hpp"

namespace weft::transport::ucx {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSystem = "the system's";
constexpr const char* kPython = "of the Python environment";

#if defined(__aarch64__)
constexpr int32_t kCacheFlags = 0x0a03;  // FLAG_AARCH64_LIB64 | FLAG_ELF_LIBC6
#else
constexpr int32_t kCacheFlags = 0x0303;  // FLAG_X8664_LIB64 | FLAG_ELF_LIBC6
#endif

struct CacheHeader {
  char magic[20];  // "glibc-ld.so.cache1.1"
  uint32_t libraries, string_bytes;
  uint32_t unused[5];
};
struct CacheEntry {
  int32_t flags;
  uint32_t name, path;  // offsets of strings from the header
  uint32_t system_version;
  uint64_t capabilities;
};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

void add(std::vector<Candidate>& found, const fs::path& path, const char* origin) {
  std::error_code ignored;
  if (!is_there(path)) return;
  for (const Candidate& other : found)
    if (fs::equivalent(path, other.path, ignored)) return;
  const fs::path modules = fs::canonical(path, ignored).parent_path() / "ucx";
  found.push_back({path.string(), origin, is_there(modules / "libuct_cuda.so.0"),
                   is_there(modules / "libuct_ib.so.0") || is_there(modules / "libuct_ib_mlx5.so.0")});
}

/// Adds the package libucx-cu* of each Python in an environment, and a UCX in its own lib folder (Conda).
void add_environment(std::vector<Candidate>& found, const fs::path& root) {
  std::error_code ignored;
  for (const char* lib : {"lib", "lib64"}) {
    std::vector<fs::path> pythons;
    for (const auto& entry : fs::directory_iterator(root / lib, ignored))
      if (entry.path().filename().string().starts_with("python3")) pythons.push_back(entry.path());
    std::sort(pythons.rbegin(), pythons.rend());
    for (const fs::path& python : pythons)
      for (const char* packages : {"site-packages", "dist-packages"})
        add(found, python / packages / "libucx" / "lib" / kLibraryName, kPython);
  }
  if (is_there(root / "conda-meta")) add(found, root / "lib" / kLibraryName, kPython);
}

/// Returns the environment of a Python program: the folder above its bin/, if it is one; empty otherwise.
fs::path environment_of(const std::string& program) {
  if (program.find('/') == std::string::npos) return {};
  const fs::path root = fs::path(program).parent_path().parent_path();
  return is_there(root / "pyvenv.cfg") || is_there(root / "conda-meta") ? root : fs::path();
}

std::string what_lacks(const Candidate& one) {
  if (!one.cuda && !one.infiniband) return "without CUDA and InfiniBand";
  if (!one.cuda) return "without CUDA";
  return one.infiniband ? "with CUDA and InfiniBand" : "with CUDA, without InfiniBand";
}

std::string on_search_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (std::string_view rest = path != nullptr ? path : ""; !rest.empty();) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    const fs::path file = fs::path(rest.substr(0, colon)) / name;
    if (is_there(file)) return file.string();
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return name;
}

std::string variable(const char* name) {
  const char* text = ::secure_getenv(name);
  return text != nullptr ? text : "";
}

}  // namespace

std::string Candidate::text() const { return path + ", " + origin + ", " + what_lacks(*this); }

SearchPlaces places_of_this_process() {
  SearchPlaces places;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&places_of_this_process), &info) != 0 &&
      info.dli_fname != nullptr)
    places.library_folder = fs::path(info.dli_fname).parent_path().string();
  const std::string program = program_invocation_name != nullptr ? program_invocation_name : "";
  places.program = program.find('/') == std::string::npos ? on_search_path(program) : program;
  places.environments[0] = variable("VIRTUAL_ENV");
  places.environments[1] = variable("CONDA_PREFIX");
  places.library_path = variable("LD_LIBRARY_PATH");
  places.linker_cache = "/etc/ld.so.cache";
  places.launcher_folder = launch::launcher_folder([](const char* name) { return ::secure_getenv(name); });
  return places;
}

std::string find_in_linker_cache(const std::string& cache, const std::string& library) {
  std::ifstream file(cache, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
  const size_t start = bytes.find(kMagic);  // an older table may precede it
  CacheHeader header{};
  if (start == bytes.npos || bytes.size() - start < sizeof header) return {};
  std::memcpy(&header, bytes.data() + start, sizeof header);
  if (header.libraries > (bytes.size() - start - sizeof header) / sizeof(CacheEntry)) return {};
  const auto string_at = [&](uint32_t offset) -> std::string {
    return offset < bytes.size() - start ? bytes.c_str() + start + offset : "";
  };
  for (uint32_t i = 0; i < header.libraries; ++i) {
    CacheEntry entry{};
    std::memcpy(&entry, bytes.data() + start + sizeof header + i * sizeof entry, sizeof entry);
    if (entry.flags == kCacheFlags && string_at(entry.name) == library) return string_at(entry.path);
  }
  return {};
}

std::vector<Candidate> find_candidates(const SearchPlaces& places) {
  std::vector<Candidate> found;
  // As the dynamic linker: the first existing file.
  for (std::string_view rest = places.library_path; !rest.empty() && found.empty();) {
    const size_t colon = std::min(rest.find_first_of(":;"), rest.size());
    if (colon > 0) add(found, fs::path(rest.substr(0, colon)) / kLibraryName, "of LD_LIBRARY_PATH");
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  if (const std::string cached = find_in_linker_cache(places.linker_cache, kLibraryName); !cached.empty())
    add(found, cached, kSystem);
  if (const fs::path root = environment_of(places.program); !root.empty()) add_environment(found, root);
  for (const std::string& root : places.environments)
    if (!root.empty()) add_environment(found, root);
  // The wheel's library is in lib/weft/lib of the environment, or of ~/.local.
  constexpr int kLevels = 5;
  fs::path folder = places.library_folder;
  for (int level = 0; level < kLevels && folder.has_relative_path(); ++level, folder = folder.parent_path()) {
    add(found, folder / "libucx" / "lib" / kLibraryName, kPython);
    add_environment(found, folder);
  }
  if (!places.launcher_folder.empty())
    add(found, fs::path(places.launcher_folder) / "lib" / kLibraryName, "of weft hosts");
  return found;
}

std::string rank(std::vector<Candidate>& candidates, const Hardware& hardware) {
  const auto value = [&](const Candidate& one) {
    return (hardware.adapters && one.infiniband ? 2 : 0) + (hardware.gpus && one.cuda ? 1 : 0);
  };
  const std::string usual = candidates.empty() ? "" : candidates.front().path;
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const Candidate& a, const Candidate& b) { return value(a) > value(b); });
  if (candidates.empty() || candidates.front().path == usual) return {};
  const auto passed =
      std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& c) { return c.path == usual; });
  const bool for_adapters = hardware.adapters && candidates.front().infiniband && !passed->infiniband;
  return std::string("for its ") + (for_adapters ? "InfiniBand" : "CUDA") + " module, which " + usual +
         " lacks";
}

}  // namespace weft::transport::ucx
