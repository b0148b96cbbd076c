// SPDX-License-Identifier: BSD-3-Clause
// Word: tells another rank something without MPI calls.
#pragma once
#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

namespace weft::test {

/// A word shared by all ranks without MPI.
class Word {
 public:
  Word() {
    int id = ::getpid();
    MPI_Bcast(&id, 1, MPI_INT, 0, MPI_COMM_WORLD);
    const std::string name = "/weft-test-put-" + std::to_string(id);
    const int file = ::shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
    if (file < 0 || ::ftruncate(file, 4096) != 0) std::abort();
    word_ =
        static_cast<std::atomic<int>*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    ::close(file);
    MPI_Barrier(MPI_COMM_WORLD);
    ::shm_unlink(name.c_str());
  }
  void set(int value) { word_->store(value); }
  /// Computes without MPI calls until another rank has set the word to `value`. Returns false after 20 s.
  [[nodiscard]] bool compute_until(int value) const {
    for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20); *word_ != value;) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

 private:
  std::atomic<int>* word_;
};

}  // namespace weft::test
