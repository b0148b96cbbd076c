// SPDX-License-Identifier: BSD-3-Clause
// Accesses of GPU memory through cuFile: aligned and unaligned parts of a file, contiguous and in blocks, to
// the end of the file and beyond, compared with what the CPU reads. Arguments: works|refuses: whether
// transfers by cuFile are expected.
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>
#include <weft.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../device/cuda_test_support.hpp"

namespace {

using weft::test::Buffer;
int rank = 0, size = 0, device_index = 0;
std::string path;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
  std::exit(1);
}

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(std::string(what) + ": " + text);
}

long counter(const char* name) {
  std::vector<char> text(1 << 16);
  MPIX_Counters(text.data(), static_cast<int>(text.size()), nullptr);
  const char* const line = std::strstr(text.data(), name);
  return line == nullptr ? -1 : std::strtol(line + std::strlen(name), nullptr, 10);
}

char value_at(long at, int salt) { return static_cast<char>(at * 7 + at / 251 + salt); }

/// `bytes` bytes of each rank from `start` plus the parts of the ranks before it; in blocks of `block` bytes
/// dealt to the ranks, or 0: contiguous. The buffer starts `shift` bytes after an aligned address.
void run(long start, long bytes, long block, long shift, bool collective) {
  static int salt = 0;
  ++salt;
  const auto n = static_cast<size_t>(bytes);
  Buffer buffer(Buffer::Kind::device, n + 8192, device_index);
  const auto base = reinterpret_cast<uintptr_t>(buffer.data());
  const size_t lead = (4096 - base % 4096) % 4096 + static_cast<size_t>(shift);
  std::vector<char> all(n + 8192, 0);
  const auto file_at = [&](long i) {
    return block == 0 ? start + rank * bytes + i : start + (i / block * size + rank) * block + i % block;
  };
  for (size_t i = 0; i < n; ++i) all[lead + i] = value_at(file_at(static_cast<long>(i)), salt);
  buffer.write(all);
  MPI_File file;
  check(MPI_File_open(MPI_COMM_WORLD, path.c_str(), MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file),
        "open");
  MPI_Datatype view = MPI_BYTE;
  if (block != 0) {
    MPI_Type_vector(static_cast<int>(bytes / block), static_cast<int>(block), static_cast<int>(block) * size,
                    MPI_BYTE, &view);
    MPI_Type_commit(&view);
  }
  check(MPI_File_set_view(file, file_at(0), MPI_BYTE, view, "native", MPI_INFO_NULL), "view");
  void* const data = static_cast<char*>(buffer.data()) + lead;
  const int count = static_cast<int>(bytes);
  MPI_Status status;
  int got = 0;
  check(collective ? MPI_File_write_at_all(file, 0, data, count, MPI_BYTE, &status)
                   : MPI_File_write_at(file, 0, data, count, MPI_BYTE, &status),
        "write");
  MPI_Get_count(&status, MPI_BYTE, &got);
  if (got != count) fail("a write has a wrong count");
  MPI_Barrier(MPI_COMM_WORLD);
  std::vector<char> raw(n);
  check(MPI_File_read_at(file, 0, raw.data(), count, MPI_BYTE, &status), "host read");
  if (std::memcmp(raw.data(), all.data() + lead, n) != 0) fail("the file has wrong bytes");
  const std::vector<char> empty(n + 8192, 5);
  buffer.write(empty);
  check(collective ? MPI_File_read_at_all(file, 0, data, count, MPI_BYTE, &status)
                   : MPI_File_read_at(file, 0, data, count, MPI_BYTE, &status),
        "read");
  MPI_Get_count(&status, MPI_BYTE, &got);
  std::vector<char> back = buffer.read();
  if (got != count || std::memcmp(back.data() + lead, all.data() + lead, n) != 0) fail("a read is wrong");
  for (size_t i = 0; i < back.size(); ++i)
    if ((i < lead || i >= lead + n) && back[i] != 5) fail("a read wrote outside of its buffer");
  // Beyond the end of the file.
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == size - 1 && block == 0) {
    check(MPI_File_read_at(file, bytes / 2 + 100, data, count, MPI_BYTE, &status), "read at the end");
    MPI_Get_count(&status, MPI_BYTE, &got);
    back = buffer.read();
    const auto rest = n - n / 2 - 100;
    if (got != static_cast<int>(rest) ||
        std::memcmp(back.data() + lead, all.data() + lead + n / 2 + 100, rest) != 0)
      fail("a read at the end of the file is wrong: " + std::to_string(got));
  }
  check(MPI_File_close(&file), "close");
  if (block != 0) MPI_Type_free(&view);
  if (rank == 0) MPI_File_delete(path.c_str(), MPI_INFO_NULL);
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Whether the file system has O_DIRECT.
bool direct() {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

}  // namespace

int main(int argc, char** argv) {
  device_index = weft::test::own_device();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long pid = getpid();
  MPI_Bcast(&pid, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  path = "/tmp/weft_io_cufile_" + std::to_string(pid);
  const bool works = argc > 1 && std::strcmp(argv[1], "works") == 0 && direct();
  MPI_Barrier(MPI_COMM_WORLD);
  for (const bool collective : {false, true}) {
    run(0, 2 << 20, 0, 0, collective);
    run(4096, (2 << 20) + 17, 0, 0, collective);
    run(100, 2 << 20, 0, 0, collective);    // the address is unaligned where the file is aligned
    run(100, 2 << 20, 0, 100, collective);  // both are unaligned alike, for rank 0
    run(0, 2 << 20, 65536, 0, collective);
    run(0, 2 << 20, 65536, 8, collective);
    run(512, 2 << 20, 65536, 0, collective);
    run(0, 5000, 0, 0, collective);
  }
  const long reads = counter("io.cufile_reads\t"), writes = counter("io.cufile_writes\t");
  if (works != (reads > 0 && writes > 0) && (works || reads + writes > 0))
    fail(std::to_string(reads) + " reads and " + std::to_string(writes) + " writes by cuFile");
  if (!works && counter("io.no_cufile\t") == 0) fail("no slow path is reported");
  MPI_Finalize();
  return 0;
}
