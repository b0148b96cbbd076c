// SPDX-License-Identifier: BSD-3-Clause
#include "io/backend/file_system.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include <cstdio>
#include <cstring>
#include <vector>

namespace weft::io {
namespace {

/// A kind of file system. `type`: f_type of statfs(2); linux/magic.h has most of the numbers.
struct FileSystem {
  long type;
  const char* name;
  bool local;  ///< of one host, with coherent mappings
};
constexpr long kLustre = 0x0bd00bd0, kNfs = 0x6969, kTmpfs = 0x01021994;
constexpr FileSystem kFileSystems[] = {
    {kTmpfs, "tmpfs", true},      {0xef53, "ext4", true},          {0x58465342, "XFS", true},
    {0x9123683e, "Btrfs", true},  {0x794c7630, "overlayfs", true}, {0x858458f6, "ramfs", false},
    {kNfs, "NFS", false},         {kLustre, "Lustre", false},      {0x47504653, "GPFS", false},
    {0x65735546, "FUSE", false},  {0x19830326, "BeeGFS", false},   {0x2fc12fc1, "ZFS", false},
    {0x00c36400, "CephFS", false}};

long type_of(const Descriptor& file) {
  struct statfs system;
  return ::fstatfs(file.fd(), &system) == 0 ? static_cast<long>(system.f_type) : 0;
}

// The interface of Lustre's kernel module (lustre_user.h).
constexpr unsigned long kGetLayout = _IOW('f', 155, long);        // LL_IOC_LOV_GETSTRIPE
constexpr unsigned long kSetLayout = _IOW('f', 154, long);        // LL_IOC_LOV_SETSTRIPE
constexpr uint32_t kFormat1 = 0x0bd10bd0, kFormat3 = 0x0bd30bd0;  // LOV_USER_MAGIC_V1, _V3
constexpr int kDelayCreate = O_NOCTTY | O_ASYNC;                  // O_LOV_DELAY_CREATE
constexpr size_t kMaxLayoutBytes = size_t{64} << 10;              // of the 2,000 servers that Lustre allows
constexpr uint16_t kAnyServer = 0xffff;

struct Layout {  // lov_user_md_v1
  uint32_t format, pattern;
  uint64_t object[2];
  uint32_t stripe_bytes;
  uint16_t stripe_count, first_server;
};

}  // namespace

std::string file_system_name(const Descriptor& file) {
  const long type = type_of(file);
  for (const FileSystem& known : kFileSystems)
    if (known.type == type) return known.name;
  char code[24];
  return {code, static_cast<size_t>(
                    std::snprintf(code, sizeof code, "type 0x%lx", static_cast<unsigned long>(type)))};
}

bool on_local_file_system(const Descriptor& file) {
  const long type = type_of(file);
  for (const FileSystem& known : kFileSystems)
    if (known.type == type) return known.local;
  return false;
}

bool in_memory(const Descriptor& file) { return type_of(file) == kTmpfs; }

bool cached_by_hosts(const Descriptor& file) { return type_of(file) == kNfs; }

Stripes stripes_of(const Descriptor& file) {
  if (type_of(file) != kLustre) return {};
  std::vector<std::byte> bytes(kMaxLayoutBytes);
  Layout layout{};
  layout.format = kFormat1;
  std::memcpy(bytes.data(), &layout, sizeof layout);
  if (::ioctl(file.fd(), kGetLayout, bytes.data()) < 0) return {};
  std::memcpy(&layout, bytes.data(), sizeof layout);
  if (layout.format != kFormat1 && layout.format != kFormat3) return {};
  return {layout.stripe_count, layout.stripe_bytes};
}

int stripe_later(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  struct statfs system;
  return ::statfs(folder.c_str(), &system) == 0 && system.f_type == kLustre ? kDelayCreate : 0;
}

void set_stripes(const Descriptor& file, const Stripes& wanted) {
  Layout layout{};
  layout.format = kFormat1;
  layout.stripe_bytes = static_cast<uint32_t>(wanted.bytes);
  layout.stripe_count = static_cast<uint16_t>(wanted.count);
  layout.first_server = kAnyServer;
  static_cast<void>(::ioctl(file.fd(), kSetLayout, &layout));  // MPI_File_get_info shows the layout
}

}  // namespace weft::io
