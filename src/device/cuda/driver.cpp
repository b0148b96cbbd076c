// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/driver.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/config.hpp"
#include "base/log.hpp"
#include "base/secure.hpp"
#include "device/cuda/bar.hpp"
#include "device/cuda/race_check.hpp"
#include "device/info.hpp"
#include "device/memory.hpp"

namespace weft::device {

namespace cuda {

namespace {

config::Choice setting_cuda(
    "cuda", 0, {"auto", "on", "off"}, "Use of the CUDA driver: auto (if present), on (error if absent), off.",
    "the program must not start without a usable GPU (on) or must not use the driver at all (off)");
config::Path setting_driver(
    "cuda.driver", "", "Path of the CUDA driver library instead of libcuda.so.1.",
    "the driver library is installed outside the linker's search path, or an emulated driver is used");

constexpr int kInterface = 12000;     // interface version requested from cuGetProcAddress
constexpr int kOldestDriver = 11030;  // first version with cuGetProcAddress

std::string why_absent = "device::open() was not called";
std::mutex open_mutex;

using GetProcAddress1 = Code (*)(const char*, void**, int, uint64_t);
using GetProcAddress2 = Code (*)(const char*, void**, int, uint64_t, int*);

/// Finds one function by either form of cuGetProcAddress.
class Finder {
 public:
  explicit Finder(void* library)
      : second_(reinterpret_cast<GetProcAddress2>(::dlsym(library, "cuGetProcAddress_v2"))),
        first_(reinterpret_cast<GetProcAddress1>(::dlsym(library, "cuGetProcAddress"))) {}
  [[nodiscard]] bool usable() const { return second_ != nullptr || first_ != nullptr; }
  [[nodiscard]] void* find(const char* symbol, int version) const {
    void* function = nullptr;
    int status = 0;
    const Code code = second_ != nullptr ? second_(symbol, &function, version, 0, &status)
                                         : first_(symbol, &function, version, 0);
    return code == kSuccess ? function : nullptr;
  }

 private:
  GetProcAddress2 second_;
  GetProcAddress1 first_;
};

}  // namespace

Driver driver_table;

Status load(const std::string& path, Driver& driver) {
  void* library = secure::open_library(path, RTLD_NOW | RTLD_LOCAL);
  const bool named = !setting_driver.value().empty();
  const std::string what = (named ? "WEFT_CUDA_DRIVER: the CUDA driver " : "the CUDA driver ") + path;
  const std::string remedy =
      named ? "correct or unset WEFT_CUDA_DRIVER, or set WEFT_CUDA=off" : "or set WEFT_CUDA=off";
  const auto bad = [&](const std::string& why, const char* cure) {
    return Error(Errc::unsupported, what + why + ": " + (named ? "" : cure) + remedy);
  };
  if (library == nullptr)
    return bad(" cannot be loaded (" + secure::open_error() + ")", "check the driver's installation, ");
  const Finder finder(library);
  auto get_version = reinterpret_cast<Code (*)(int*)>(::dlsym(library, "cuDriverGetVersion"));
  if (get_version != nullptr) get_version(&driver.version);
  if (!finder.usable() || driver.version < kOldestDriver)
    return bad(" is too old (it implements CUDA " + std::to_string(driver.version / 1000) + "." +
                   std::to_string(driver.version % 1000 / 10) + ", Weft needs 11.3 or newer)",
               "update it, ");
  const int version = std::min(driver.version, kInterface);
#define WEFT_CUDA_FIND(member, symbol, parameters) \
  driver.member = reinterpret_cast<Code(*) parameters>(finder.find(#symbol, version));
  WEFT_CUDA_FUNCTIONS(WEFT_CUDA_FIND)
#undef WEFT_CUDA_FIND
#define WEFT_CUDA_FIND(member, symbol, since, parameters) \
  if (driver.version >= (since))                          \
    driver.member = reinterpret_cast<Code(*) parameters>(finder.find(#symbol, since));
  WEFT_CUDA_OPTIONAL_FUNCTIONS(WEFT_CUDA_FIND)
#undef WEFT_CUDA_FIND
#define WEFT_CUDA_CHECK(member, symbol, parameters) \
  if (driver.member == nullptr)                     \
    return bad(" has no " #symbol " for CUDA " + std::to_string(version / 1000), "update it, ");
  WEFT_CUDA_FUNCTIONS(WEFT_CUDA_CHECK)
#undef WEFT_CUDA_CHECK
  return {};
}

std::string describe(Code code) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver().get_error_name != nullptr) {
    if (driver().get_error_name(code, &name) != kSuccess) name = nullptr;
    if (driver().get_error_string(code, &text) != kSuccess) text = nullptr;
  }
  std::string result = name != nullptr ? name : "CUDA error " + std::to_string(code);
  if (text != nullptr) result += std::string(", ") + text;
  return result;
}

Error failure(Code code, std::string_view call, std::string_view what) {
  const Errc errc = code == kOutOfMemory    ? Errc::no_mem
                    : code == kNotSupported ? Errc::unsupported
                                            : Errc::other;
  return Error(errc, std::string(what) + " (" + std::string(call) + ": " + describe(code) + ")");
}

}  // namespace cuda

namespace detail {
std::atomic<bool> driver_open{false};
}

Status open() {
  const std::lock_guard lock(cuda::open_mutex);
  if (available()) return {};
  if (cuda::setting_cuda.is("off")) {
    cuda::why_absent = "switched off by WEFT_CUDA=off";
    return {};
  }
  const bool named = !cuda::setting_driver.value().empty();
  const bool wanted = named || cuda::setting_cuda.is("on");
  if (!named && ::access("/dev/nvidiactl", F_OK) != 0) {
    cuda::why_absent = "there is no NVIDIA device on this machine (/dev/nvidiactl is missing)";
    if (!wanted) return {};
    return Error(Errc::unsupported, "WEFT_CUDA=on, but " + cuda::why_absent + ": use WEFT_CUDA=auto");
  }
  cuda::Driver loaded;
  if (auto status = cuda::load(named ? cuda::setting_driver.value() : "libcuda.so.1", loaded); !status) {
    cuda::why_absent = status.error().message();
    if (wanted) return status;
    log::write(log::Level::warn, "GPU memory is not usable: %s", cuda::why_absent.c_str());
    return {};
  }
  cuda::driver_table = std::move(loaded);
  cuda::why_absent.clear();
  detail::driver_open.store(true, std::memory_order_release);
  return {};
}

void cuda::close_driver(void (*free_all)()) {
  const std::lock_guard lock(open_mutex);
  if (!available()) return;
  close_bar();
  close_race_checks();
  free_all();
  detail::driver_open.store(false, std::memory_order_release);
  why_absent = "device::close() was called";
}

std::string absence() {
  const std::lock_guard lock(cuda::open_mutex);
  return cuda::why_absent;
}

}  // namespace weft::device
