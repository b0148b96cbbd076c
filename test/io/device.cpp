// SPDX-License-Identifier: BSD-3-Clause
// Accesses of GPU memory: each rank writes and reads a part of a file, contiguous or interleaved with those
// of the others, in one call or many, and compares bytes. Argument "faults": faults.c lets writes fail from
// byte TEST_FULL of the file on, and reads from byte TEST_BAD on.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../device/cuda_test_support.hpp"

namespace {

using weft::test::Buffer;
using Kind = Buffer::Kind;
int rank = 0, size = 0, device_index = 0, failures = 0;

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  std::fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
  ++failures;
}

/// The value of a byte of the file.
char value_at(long at) { return static_cast<char>(at * 7 + at / 251); }

enum class Form { independent, collective, nonblocking, nonblocking_collective };

/// `blocks` blocks of `block` bytes of each rank. spaced: gaps between the blocks in memory.
void run(Kind kind, Form form, int blocks, int block, bool spaced, const std::string& path) {
  const int stride = spaced ? 2 * block : block;
  const auto bytes = static_cast<size_t>(blocks) * static_cast<size_t>(stride);
  Buffer buffer(kind, bytes, device_index);
  std::vector<char> in(bytes, 1), empty(bytes, 2);
  const auto file_at = [&](int i, int k) { return 3 + (static_cast<long>(i) * size + rank) * block + k; };
  for (int i = 0; i < blocks; ++i)
    for (int k = 0; k < block; ++k) in[static_cast<size_t>(i * stride + k)] = value_at(file_at(i, k));
  buffer.write(in);
  MPI_Datatype memory, tiles, filetype;
  MPI_Type_vector(blocks, block, stride, MPI_BYTE, &memory);
  MPI_Type_commit(&memory);
  MPI_Type_contiguous(block, MPI_BYTE, &tiles);
  MPI_Type_create_resized(tiles, 0, static_cast<MPI_Aint>(block) * size, &filetype);
  MPI_Type_commit(&filetype);
  MPI_File file;
  check(MPI_File_open(MPI_COMM_WORLD, path.c_str(),
                      MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file),
        "open");
  check(MPI_File_set_view(file, 3 + static_cast<MPI_Offset>(rank) * block, MPI_BYTE, filetype, "native",
                          MPI_INFO_NULL),
        "view");
  MPI_Status status;
  MPI_Request request;
  void* const data = buffer.data();
  if (form == Form::independent) check(MPI_File_write_at(file, 0, data, 1, memory, &status), "write");
  if (form == Form::collective) check(MPI_File_write_at_all(file, 0, data, 1, memory, &status), "write all");
  if (form == Form::nonblocking || form == Form::nonblocking_collective) {
    check(form == Form::nonblocking ? MPI_File_iwrite_at(file, 0, data, 1, memory, &request)
                                    : MPI_File_iwrite_at_all(file, 0, data, 1, memory, &request),
          "nonblocking write");
    check(MPI_Wait(&request, &status), "wait");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  // The file, read to host memory.
  std::vector<char> raw(static_cast<size_t>(blocks) * static_cast<size_t>(block));
  check(MPI_File_read_at(file, 0, raw.data(), static_cast<int>(raw.size()), MPI_BYTE, &status), "host read");
  for (int i = 0; i < blocks; ++i)
    for (int k = 0; k < block; ++k)
      if (raw[static_cast<size_t>(i * block + k)] != value_at(file_at(i, k))) {
        std::fprintf(stderr, "rank %d: byte %ld of the file is wrong\n", rank, file_at(i, k));
        std::exit(1);
      }
  buffer.write(empty);
  if (form == Form::independent) check(MPI_File_read_at(file, 0, data, 1, memory, &status), "read");
  if (form == Form::collective) check(MPI_File_read_at_all(file, 0, data, 1, memory, &status), "read all");
  if (form == Form::nonblocking || form == Form::nonblocking_collective) {
    check(form == Form::nonblocking ? MPI_File_iread_at(file, 0, data, 1, memory, &request)
                                    : MPI_File_iread_at_all(file, 0, data, 1, memory, &request),
          "nonblocking read");
    check(MPI_Wait(&request, &status), "wait");
  }
  int got = 0;
  MPI_Get_count(&status, MPI_BYTE, &got);
  const std::vector<char> out = buffer.read();
  bool right = got == blocks * block;
  for (size_t i = 0; i < bytes; ++i) {
    const bool gap = static_cast<int>(i % static_cast<size_t>(stride)) >= block;
    right = right && out[i] == (gap ? 2 : in[i]);
  }
  if (!right) {
    std::fprintf(stderr, "rank %d: a read is wrong (kind %d, form %d, %d blocks of %d bytes, spaced %d)\n",
                 rank, static_cast<int>(kind), static_cast<int>(form), blocks, block, spaced ? 1 : 0);
    ++failures;
  }
  check(MPI_File_close(&file), "close");
  MPI_Type_free(&memory);
  MPI_Type_free(&tiles);
  MPI_Type_free(&filetype);
}

/// An access of GPU memory that passes byte TEST_FULL or TEST_BAD of the file fails with the class of the
/// system call, and one of the bytes before succeeds.
void run_faults(Kind kind, const std::string& path) {
  const bool reading = std::getenv("TEST_BAD") != nullptr;
  const int limit = std::atoi(std::getenv(reading ? "TEST_BAD" : "TEST_FULL"));
  const int expected = reading ? MPI_ERR_IO : MPI_ERR_NO_SPACE;
  Buffer buffer(kind, static_cast<size_t>(limit) * 2, device_index);
  MPI_File file;
  check(MPI_File_open(MPI_COMM_SELF, (path + "_" + std::to_string(rank)).c_str(),
                      MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file),
        "open");
  check(MPI_File_set_size(file, MPI_Offset{4} * limit), "set size");
  for (const int bytes : {limit, 2 * limit, limit})
    for (const bool nonblocking : {false, true}) {
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Status status;
      void* const data = buffer.data();
      int code, got = 0, found = MPI_SUCCESS;
      if (reading)
        code = nonblocking ? MPI_File_iread_at(file, 0, data, bytes, MPI_BYTE, &request)
                           : MPI_File_read_at(file, 0, data, bytes, MPI_BYTE, &status);
      else
        code = nonblocking ? MPI_File_iwrite_at(file, 0, data, bytes, MPI_BYTE, &request)
                           : MPI_File_write_at(file, 0, data, bytes, MPI_BYTE, &status);
      if (nonblocking && code == MPI_SUCCESS) code = MPI_Wait(&request, &status);
      if (bytes <= limit) {
        check(code, "an access before the fault");
        MPI_Get_count(&status, MPI_BYTE, &got);
        if (got == bytes) continue;
      }
      MPI_Error_class(code, &found);
      if (bytes > limit && found == expected) continue;
      std::fprintf(stderr, "rank %d: %d bytes: class %d, count %d\n", rank, bytes, found, got);
      ++failures;
    }
  check(MPI_File_close(&file), "close");
}

}  // namespace

int main(int argc, char** argv) {
  device_index = weft::test::own_device();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long pid = getpid();
  MPI_Bcast(&pid, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  const char* const folder = std::getenv("TEST_FOLDER");
  const std::string path =
      std::string(folder != nullptr ? folder : "/tmp") + "/weft_io_device_" + std::to_string(pid);
  const bool faults = argc > 1 && std::string(argv[1]) == "faults";
  for (const Kind kind : {Kind::device, Kind::pinned, Kind::managed, Kind::pool}) {
    if (faults) {
      run_faults(kind, path);
      continue;
    }
    for (const Form form :
         {Form::independent, Form::collective, Form::nonblocking, Form::nonblocking_collective})
      for (const bool spaced : {false, true}) {
        run(kind, form, 1, 2'000'000, spaced, path);
        run(kind, form, 300, 1000, spaced, path);
      }
  }
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
