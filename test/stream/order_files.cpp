// SPDX-License-Identifier: BSD-3-Clause
// Files of communicators in stream order: the host waits for the stream before it accesses the file. On the
// emulated driver, and unchanged on GPUs. usage: order_files [PART]
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "stream/gate.hpp"
#include "stream/order_comm.hpp"

namespace {

using namespace weft::test::enqueued;

constexpr int kBytes = 1000;
constexpr int kMode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;

/// A function of an open file, as a program calls it. `data`: kBytes; `at`: where they are in the file.
struct Form {
  enum class Does { read, write, neither };
  const char* name;
  Does does;
  int (*call)(MPI_File file, MPI_Offset at, char* data);
};

template <class Start>
int waited(Start start) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = start(&request);
  return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}
template <class Move, class Access>
int both(Move move, Access access) {
  const int code = move();
  return code == MPI_SUCCESS ? access() : code;
}

#define FORM(name, does, ...)                                              \
  {                                                                        \
#name, Form::Does::does,                                               \
        []([[maybe_unused]] MPI_File file, [[maybe_unused]] MPI_Offset at, \
           [[maybe_unused]] char* data) -> int { return __VA_ARGS__; }     \
  }
#define AT(name, does) \
  FORM(MPI_File_##name, does, MPI_File_##name(file, at, data, kBytes, MPI_BYTE, MPI_STATUS_IGNORE))
#define IAT(name, does)                                                     \
  FORM(MPI_File_##name, does, waited([&](MPI_Request* request) {            \
         return MPI_File_##name(file, at, data, kBytes, MPI_BYTE, request); \
       }))
#define SPLIT_AT(name, does)                                                           \
  FORM(MPI_File_##name##_begin, does,                                                  \
       both([&] { return MPI_File_##name##_begin(file, at, data, kBytes, MPI_BYTE); }, \
            [&] { return MPI_File_##name##_end(file, data, MPI_STATUS_IGNORE); }))
// The pointer that the call uses is at 0: the file has one rank then.
#define POINTER(name, does) \
  FORM(MPI_File_##name, does, MPI_File_##name(file, data, kBytes, MPI_BYTE, MPI_STATUS_IGNORE))
#define IPOINTER(name, does)  \
  FORM(MPI_File_##name, does, \
       waited([&](MPI_Request* request) { return MPI_File_##name(file, data, kBytes, MPI_BYTE, request); }))
#define SPLIT_POINTER(name, does)                                                  \
  FORM(MPI_File_##name##_begin, does,                                              \
       both([&] { return MPI_File_##name##_begin(file, data, kBytes, MPI_BYTE); }, \
            [&] { return MPI_File_##name##_end(file, data, MPI_STATUS_IGNORE); }))

const Form kAtForms[] = {AT(write_at, write),        AT(write_at_all, write),       IAT(iwrite_at, write),
                         IAT(iwrite_at_all, write),  SPLIT_AT(write_at_all, write), AT(read_at, read),
                         AT(read_at_all, read),      IAT(iread_at, read),           IAT(iread_at_all, read),
                         SPLIT_AT(read_at_all, read)};
const Form kPointerForms[] = {POINTER(write, write),
                              POINTER(write_all, write),
                              IPOINTER(iwrite, write),
                              IPOINTER(iwrite_all, write),
                              SPLIT_POINTER(write_all, write),
                              POINTER(write_shared, write),
                              IPOINTER(iwrite_shared, write),
                              POINTER(write_ordered, write),
                              SPLIT_POINTER(write_ordered, write),
                              POINTER(read, read),
                              POINTER(read_all, read),
                              IPOINTER(iread, read),
                              IPOINTER(iread_all, read),
                              SPLIT_POINTER(read_all, read),
                              POINTER(read_shared, read),
                              IPOINTER(iread_shared, read),
                              POINTER(read_ordered, read),
                              SPLIT_POINTER(read_ordered, read)};
MPI_Offset ignored = 0;
const Form kOtherForms[] = {
    FORM(MPI_File_set_view, neither, MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL)),
    FORM(MPI_File_sync, neither, MPI_File_sync(file)),
    FORM(MPI_File_get_size, neither, MPI_File_get_size(file, &ignored)),
    FORM(MPI_File_set_size, neither, MPI_File_set_size(file, MPI_Offset{kBytes} * ranks)),
    FORM(MPI_File_preallocate, neither, MPI_File_preallocate(file, MPI_Offset{kBytes} * ranks)),
    FORM(MPI_File_seek, neither, MPI_File_seek(file, 0, MPI_SEEK_SET)),
    FORM(MPI_File_seek_shared, neither, MPI_File_seek_shared(file, 0, MPI_SEEK_SET)),
    FORM(MPI_File_get_position_shared, neither, MPI_File_get_position_shared(file, &ignored)),
    FORM(MPI_File_set_info, neither, MPI_File_set_info(file, MPI_INFO_NULL)),
    FORM(MPI_File_set_atomicity, neither, MPI_File_set_atomicity(file, 0))};

std::string file_name(const char* part, bool shared) {
  const char* const folder = std::getenv("TEST_FOLDER");
  return std::string(folder != nullptr ? folder : "/tmp") + "/weft-order-files." + std::to_string(getppid()) +
         "." + part + (shared ? std::string() : "." + std::to_string(rank));
}

MPI_File open(MPI_Comm comm, const std::string& name) {
  MPI_File file = MPI_FILE_NULL;
  expect_class(MPI_File_open(comm, name.c_str(), kMode, MPI_INFO_NULL, &file), MPI_SUCCESS, "MPI_File_open");
  return file;
}

/// Calls the forms while the stream has work: a write takes the data which the stream has not written yet, a
/// read replaces data which the stream has still to read, and the others return after the work, too.
template <size_t n>
void check_forms(const Form (&forms)[n], const OrderedStream& in, MPI_File file, MPI_Offset at,
                 const std::string& part) {
  Buffer data(Kind::device, kBytes, device), other(Kind::device, kBytes, device);
  std::vector<char> back(kBytes);
  Gate gate(in.stream);
  int salt = 0;
  for (const Form& form : forms) {
    const std::string what = part + ": " + form.name;
    const std::vector<char> before = pattern(kBytes, rank, ++salt), after = pattern(kBytes, rank, ++salt);
    MPI_File_seek(file, 0, MPI_SEEK_SET);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    if (form.does == Form::Does::read)
      expect_class(MPI_File_write_at_all(file, at, after.data(), kBytes, MPI_BYTE, MPI_STATUS_IGNORE),
                   MPI_SUCCESS, what);
    data.write(before);
    other.write(after);
    gate.close();
    if (form.does == Form::Does::read)
      copy(in.stream, other, data);
    else
      copy(in.stream, data, other);
    expect_class(form.call(file, at, data.data()), MPI_SUCCESS, what);
    if (form.does == Form::Does::read)
      expect(other.read() == before, what + " waits for readers of its buffer");
    expect(data.read() == after, what + " returns after the stream's work, with the data");
    if (form.does != Form::Does::write) continue;
    expect_class(MPI_File_read_at_all(file, at, back.data(), kBytes, MPI_BYTE, MPI_STATUS_IGNORE),
                 MPI_SUCCESS, what);
    expect(back == after, what + " writes the data of the stream");
  }
}

template <size_t n>
void refused_in_capture(const Form (&forms)[n], const OrderedStream& in, MPI_File file, MPI_Offset at) {
  Buffer data(Kind::device, kBytes, device);
  Graph graph(in.stream);
  for (const Form& form : forms) {
    expect_class(form.call(file, at, data.data()), MPI_ERR_UNSUPPORTED_OPERATION,
                 std::string(form.name) + " in a capture");
    char text[400] = "";
    MPIX_Last_error_message(text, sizeof text, nullptr);
    expect(std::strstr(text, form.name) != nullptr, std::string(form.name) + " is named: " + text);
  }
  int mode = 0;
  expect_class(MPI_File_get_amode(file, &mode), MPI_SUCCESS, "a query of the file in a capture");
  expect(mode == kMode, "MPI_File_get_amode");
  graph.discard();
}

void close(MPI_File* file, const OrderedStream& in, const std::string& part) {
  Buffer data(Kind::device, kBytes, device), other(Kind::device, kBytes, device);
  const std::vector<char> after = pattern(kBytes, rank, 99);
  data.write(std::vector<char>(kBytes, 0));
  other.write(after);
  Gate gate(in.stream);
  gate.close();
  copy(in.stream, data, other);
  expect_class(MPI_File_close(file), MPI_SUCCESS, part + ": MPI_File_close");
  expect(data.read() == after, part + ": MPI_File_close returns after the stream's work");
}

MPI_Comm duplicate(MPI_Comm comm) {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_dup(comm, &made);
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  return made;
}

/// All functions, on files of one rank and of all.
void all_forms() {
  const OrderedStream in;
  for (const bool shared : {false, true}) {
    const std::string part = shared ? "all ranks" : "one rank";
    const MPI_Offset at = shared ? MPI_Offset{kBytes} * rank : 0;
    MPI_Comm comm = duplicate(shared ? MPI_COMM_WORLD : MPI_COMM_SELF);
    expect_class(MPIX_Comm_set_stream(comm, in.mpi_stream), MPI_SUCCESS, "MPIX_Comm_set_stream");
    MPI_File file = open(comm, file_name("forms", shared));
    check_forms(kAtForms, in, file, at, part);
    if (!shared) check_forms(kPointerForms, in, file, at, part);
    check_forms(kOtherForms, in, file, at, part);
    refused_in_capture(kAtForms, in, file, at);
    refused_in_capture(kPointerForms, in, file, at);
    refused_in_capture(kOtherForms, in, file, at);
    close(&file, in, part);
    MPI_Comm_free(&comm);
  }
}

/// A file follows its communicator: to a stream that is set after it was opened, to another one, and off it.
/// It keeps the last one when the communicator has been freed.
void follows() {
  for (MPI_Comm parent : {MPI_COMM_SELF, MPI_COMM_WORLD}) {
    const bool shared = parent == MPI_COMM_WORLD;
    const MPI_Offset at = shared ? MPI_Offset{kBytes} * rank : 0;
    const OrderedStream first, second;
    MPI_Comm comm = duplicate(parent);
    MPI_File file = open(comm, file_name("follows", shared));
    for (const OrderedStream* in : {&first, &second}) {
      expect_class(MPIX_Comm_set_stream(comm, in->mpi_stream), MPI_SUCCESS, "MPIX_Comm_set_stream");
      check_forms(kAtForms, *in, file, at, "a stream set after the file was opened");
    }
    // Off it: calls that were enqueued run before, as before a call on the communicator.
    Buffer source(Kind::device, kBytes, device), data(Kind::device, kBytes, device);
    const std::vector<char> sent = pattern(kBytes, rank, 77);
    source.write(sent);
    data.write(std::vector<char>(kBytes, 0));
    {
      Gate gate(second.stream);
      gate.close();
      MPI_Sendrecv(source.data(), kBytes, MPI_BYTE, shared ? right() : 0, 1, data.data(), kBytes, MPI_BYTE,
                   shared ? left() : 0, 1, comm, MPI_STATUS_IGNORE);
      expect_class(MPIX_Comm_set_stream(comm, MPIX_STREAM_NULL), MPI_SUCCESS, "MPIX_Comm_set_stream");
      expect_class(MPI_File_write_at(file, at, data.data(), kBytes, MPI_BYTE, MPI_STATUS_IGNORE), MPI_SUCCESS,
                   "without the stream");
    }
    std::vector<char> back(kBytes);
    MPI_File_read_at(file, at, back.data(), kBytes, MPI_BYTE, MPI_STATUS_IGNORE);
    expect(back == pattern(kBytes, shared ? left() : rank, 77), "a call before the stream was taken off");
    expect_class(MPIX_Comm_set_stream(comm, first.mpi_stream), MPI_SUCCESS, "MPIX_Comm_set_stream");
    MPI_Comm_free(&comm);
    check_forms(kAtForms, first, file, at, "the communicator is free");
    close(&file, first, "the communicator is free");
  }
}

/// Communicators made with a stream, whose calls the host or kernels execute.
void made_with_stream() {
  for (const char* kernels : {"false", "prefer"}) {
    OrderComm made(kernels);
    MPI_File file = open(made.comm, file_name(kernels, true));
    check_forms(kAtForms, made, file, MPI_Offset{kBytes} * rank,
                std::string("weft_stream_kernels ") + kernels);
    close(&file, made, kernels);
  }
}

/// Other ranks' accesses before an enqueued barrier are seen behind it.
void behind_barrier() {
  OrderComm ordered;
  MPI_File file = open(ordered.comm, file_name("barrier", true));
  for (int round = 1; round <= 20; ++round) {
    if (rank == round % ranks) {
      usleep(1000);
      MPI_File_write_at(file, MPI_Offset{round} * 8 - 8, "12345678", 8, MPI_BYTE, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(ordered.comm);
    MPI_Offset size = 0;
    MPI_File_get_size(file, &size);
    expect(size == MPI_Offset{round} * 8, "the size behind a barrier: " + std::to_string(size));
    MPI_Barrier(ordered.comm);
  }
  MPI_File_close(&file);
}

/// The error of an enqueued call is left to the communicator.
void errors() {
  const OrderedStream in;
  MPI_Comm comm = duplicate(MPI_COMM_SELF);
  MPI_File file = open(comm, file_name("errors", false));
  Buffer data(Kind::device, kBytes, device);
  for (const bool off : {false, true}) {
    expect_class(MPIX_Comm_set_stream(comm, in.mpi_stream), MPI_SUCCESS, "MPIX_Comm_set_stream");
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(data.data(), 100, MPI_BYTE, 0, 1, comm, &request);
    Gate gate(in.stream);
    gate.close();
    int found = MPI_Recv(data.data(), 10, MPI_BYTE, 0, 1, comm, MPI_STATUS_IGNORE);
    if (off) expect_class(MPIX_Comm_set_stream(comm, MPIX_STREAM_NULL), MPI_SUCCESS, "off the stream");
    expect_class(MPI_File_write_at(file, 0, data.data(), kBytes, MPI_BYTE, MPI_STATUS_IGNORE), MPI_SUCCESS,
                 "an access behind a call that fails");
    if (found == MPI_SUCCESS) found = MPI_Barrier(comm);
    expect_class(found, MPI_ERR_TRUNCATE, "the error of the call");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect_class(MPI_Barrier(comm), MPI_SUCCESS, "the next call");
  }
  expect_class(MPI_File_close(&file), MPI_SUCCESS, "MPI_File_close");
  MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const Parts part(argc, argv);
  part("forms", all_forms);
  part("follows", follows);
  part("made", made_with_stream);
  part("barrier", behind_barrier);
  part("errors", errors);
  return weft::test::finish(failures);
}
