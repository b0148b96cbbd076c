// SPDX-License-Identifier: BSD-3-Clause
// MPS folder: the folder of a private MPS daemon, which its job locks while it runs. A folder without a lock
// is left over from a job of which all processes were killed at once.
#pragma once
#include <string>

#include "base/result.hpp"

namespace weft::mpiexec {

class MpsFolder {
 public:
  MpsFolder() = default;
  MpsFolder(const MpsFolder&) = delete;
  MpsFolder& operator=(const MpsFolder&) = delete;
  ~MpsFolder();

  /// Chooses the path, so that several processes of a job know it before the folder exists.
  void choose(const std::string& parent);
  /// Creates the folder, with pipe/ and log/ inside, which only this user can enter, and locks it.
  [[nodiscard]] Status create();
  /// Locks the folder that another process of the job has created, too. Child processes keep the lock. False:
  /// gone.
  [[nodiscard]] bool share();
  /// Ends the daemon that is left and removes the folder and all in it. Returns false if something is left.
  bool remove();
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string pipe() const { return path_ + "/pipe"; }
  [[nodiscard]] std::string log() const { return path_ + "/log"; }

 private:
  std::string path_{};
  int lock_ = -1;
};

/// Ends the daemons of this user in `parent` whose jobs are gone, and removes their folders.
void remove_stale_mps_folders(const std::string& parent);

}  // namespace weft::mpiexec
