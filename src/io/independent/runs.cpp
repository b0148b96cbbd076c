// SPDX-License-Identifier: BSD-3-Clause
#include "io/independent/runs.hpp"

namespace weft::io {
namespace {

constexpr int64_t kBlockBytes = int64_t{1} << 20;  // packed at once
constexpr int64_t kVectorRunBytes = 8 << 10;       // mean length of runs from which iovecs are used
constexpr size_t kMaxParts = 512;                  // iovecs of one system call; below IOV_MAX

}  // namespace

int64_t MemoryStream::parts(int64_t stream, int64_t n, std::vector<iovec>& out) const {
  out.clear();
  int64_t bytes = 0;
  datatype::for_each_run(type_, memory_.count, stream, n, [&](datatype::Count at, datatype::Count length) {
    auto* address = reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(memory_.address) +
                                                 static_cast<uintptr_t>(at));
    out.push_back({address, static_cast<size_t>(length)});
    bytes += length;
    return out.size() < kMaxParts;
  });
  if (bytes < kVectorRunBytes * static_cast<int64_t>(out.size())) out.clear();
  return bytes;
}

Result<int64_t> read_run(const Descriptor& file, const MemoryStream& memory, const FileRun& run,
                         Block& block) {
  if (memory.contiguous()) return file.read(memory.data(run.stream), run.length, run.at);
  std::vector<iovec> parts;
  int64_t done = 0;
  while (done < run.length) {
    int64_t n = memory.parts(run.stream + done, run.length - done, parts);
    Result<int64_t> read = int64_t{0};
    if (!parts.empty()) {
      read = file.read(parts.data(), static_cast<int>(parts.size()), run.at + done);
    } else {
      n = std::min(kBlockBytes, run.length - done);
      if (block == nullptr) block = make_block(kBlockBytes);
      read = file.read(block.get(), n, run.at + done);
      if (read) memory.unpack(run.stream + done, block.get(), *read);
    }
    if (!read) return read;
    done += *read;
    if (*read < n) break;
  }
  return done;
}

Status write_run(const Descriptor& file, const MemoryStream& memory, const FileRun& run, Block& block) {
  if (memory.contiguous()) return file.write(memory.data(run.stream), run.length, run.at);
  std::vector<iovec> parts;
  for (int64_t done = 0, n = 0; done < run.length; done += n) {
    n = memory.parts(run.stream + done, run.length - done, parts);
    if (!parts.empty()) {
      WEFT_TRY(file.write(parts.data(), static_cast<int>(parts.size()), run.at + done));
      continue;
    }
    n = std::min(kBlockBytes, run.length - done);
    if (block == nullptr) block = make_block(kBlockBytes);
    memory.pack(run.stream + done, block.get(), n);
    WEFT_TRY(file.write(block.get(), n, run.at + done));
  }
  return {};
}

}  // namespace weft::io
