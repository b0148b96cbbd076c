// SPDX-License-Identifier: BSD-3-Clause
// The C++ bindings of Open MPI 4 and MPICH, which MPI 3 has removed: user operations, error handlers,
// attributes, exceptions (Debian's build for Open MPI has none and goes on). Each rank prints its results;
// binaries.py compares them with those on their own MPI.
#include <mpi.h>

#include <cstdio>
#include <string>

namespace {

#ifdef MPICH
using Value = void;
#else
using Value = const void;
#endif
std::string text;

void add(const std::string& word, long value) { text += " " + word + " " + std::to_string(value); }

void largest(const void* in, void* inout, int count, const MPI::Datatype& type) {
  const int* from = static_cast<const int*>(in);
  int* to = static_cast<int*>(inout);
  for (int i = 0; i < count; ++i)
    if (from[i] > to[i]) to[i] = from[i];
  if (type != MPI::INT) to[0] = -1;
}
void product(const void* in, void* inout, int count, const MPI::Datatype&) {
  for (int i = 0; i < count; ++i) static_cast<int*>(inout)[i] *= static_cast<const int*>(in)[i];
}

int copies, removals, state = 17;
int copy(const MPI::Comm& comm, int, void* extra, void* value, void* result, bool& flag) {
  ++copies;
  add("copy of a Cartesian communicator", dynamic_cast<const MPI::Cartcomm*>(&comm) != nullptr);
  add("its size", comm.Get_size());
  add("state", *static_cast<int*>(extra));
  *static_cast<void**>(result) = value;
  flag = true;
  return MPI_SUCCESS;
}
int remove(MPI::Comm&, int, void*, void*) {
  ++removals;
  return MPI_SUCCESS;
}
int copy_type(const MPI::Datatype& type, int, void*, Value* value, void* result, bool& flag) {
  add("copy of a datatype of bytes", type.Get_size());
  *static_cast<Value**>(result) = value;
  flag = true;
  return MPI_SUCCESS;
}
int remove_type(MPI::Datatype&, int, void*, void*) {
  ++removals;
  return MPI_SUCCESS;
}

void handle(MPI::Comm& comm, int* code, ...) {
  add("handler of size", comm.Get_size());
  add("class", MPI::Get_error_class(*code));
}
void handle_window(MPI::Win&, int* code, ...) {
  add("handler of a window, class", MPI::Get_error_class(*code));
}

}  // namespace

int main(int argc, char** argv) {
  MPI::Init(argc, argv);
  MPI::Intracomm& world = MPI::COMM_WORLD;
  const int rank = world.Get_rank(), size = world.Get_size();
  MPI::Op max, times;
  max.Init(largest, true);
  times.Init(product, true);
  int values[2] = {rank + 1, size - rank}, results[2];
  world.Allreduce(values, results, 2, MPI::INT, max);
  add("largest", results[0]);
  add("and", results[1]);
  world.Allreduce(values, results, 2, MPI::INT, times);
  add("product", results[0]);
  max.Free();
  times.Free();

  const int key = MPI::Comm::Create_keyval(copy, remove, &state);
  const bool periods[1] = {false};
  MPI::Cartcomm line = world.Create_cart(1, &size, periods, false);
  line.Set_attr(key, &state);
  MPI::Cartcomm again = line.Dup();
  void* found = nullptr;
  add("found", again.Get_attr(key, &found) && found == &state);
  again.Free();
  line.Free();
  add("copies", copies);
  add("removals", removals);

  const int type_key = MPI::Datatype::Create_keyval(copy_type, remove_type, &state);
  MPI::Datatype pair = MPI::INT.Create_contiguous(2);
  pair.Commit();
  pair.Set_attr(type_key, &state);
  MPI::Datatype other = pair.Dup();
  other.Free();
  pair.Free();
  add("removals", removals);

  MPI::Errhandler handler = MPI::Comm::Create_errhandler(handle);
  MPI::Intracomm copied = world.Dup();
  copied.Set_errhandler(handler);
  copied.Send(values, 1, MPI::INT, size + 5, 0);
  handler.Free();
  copied.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
  try {
    copied.Send(values, 1, MPI::INT, size + 5, 0);
    add("no exception", 1);
  } catch (MPI::Exception& exception) {
    add("exception of class", exception.Get_error_class());
  }
  copied.Barrier();
  copied.Free();

  MPI::Win window = MPI::Win::Create(values, sizeof values, sizeof(int), MPI::INFO_NULL, world);
  MPI::Errhandler of_window = MPI::Win::Create_errhandler(handle_window);
  window.Set_errhandler(of_window);
  window.Call_errhandler(MPI::ERR_ARG);
  window.Fence(0);
  window.Free();
  of_window.Free();
  std::printf("cxx %d:%s\n", rank, text.c_str());
  MPI::Finalize();
  return 0;
}
