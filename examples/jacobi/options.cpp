// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

namespace jacobi {
namespace {

struct Number {
  std::string_view name;
  int Options::*field;
  int low, high;
};

constexpr std::array numbers{Number{"nx", &Options::nx, 3, 1 << 30}, Number{"ny", &Options::ny, 3, 1 << 30},
                             Number{"niter", &Options::niter, 1, 1000000000},
                             Number{"nccheck", &Options::nccheck, 1, 1000000000}};

struct VariantName {
  const char* name;
  Variant value;
};

constexpr std::array variants{
    VariantName{"cuda_aware", Variant::cuda_aware}, VariantName{"host_staged", Variant::host_staged},
    VariantName{"overlap", Variant::overlap},       VariantName{"window", Variant::window},
    VariantName{"stream", Variant::stream},         VariantName{"device", Variant::device}};

struct PlaceName {
  const char* name;
  Place value;
};

constexpr std::array places{PlaceName{"auto", Place::automatic}, PlaceName{"cuda", Place::cuda},
                            PlaceName{"host", Place::host}};

std::string parse_number(const Number& number, const char* text, Options& options) {
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || rest != end || value < number.low || value > number.high) {
    std::string message = "-";
    message.append(number.name).append(" ").append(text).append(": expected a whole number from ");
    return message.append(std::to_string(number.low)).append(" to ").append(std::to_string(number.high));
  }
  options.*number.field = value;
  return {};
}

template <class Names, class Value>
std::string parse_name(const Names& names, const std::string& option, const char* text, Value& value) {
  std::string choices;
  for (const auto& known : names) {
    if (std::strcmp(known.name, text) == 0) {
      value = known.value;
      return {};
    }
    choices += (choices.empty() ? "" : ", ") + std::string(known.name);
  }
  return option + " " + text + ": expected one of " + choices;
}

// Parses an option with a value.
std::string parse_valued(std::string_view name, const char* text, Options& options) {
  for (const Number& number : numbers) {
    if (name == number.name) return parse_number(number, text, options);
  }
  if (name == "plot") {
    options.plot = text;
    const size_t size = options.plot.size();
    const bool good = size > 4 && options.plot.compare(size - 4, 4, ".png") == 0;
    return good ? std::string() : "-plot " + options.plot + ": expected FILE.png";
  }
  if (name == "variant") return parse_name(variants, "-variant", text, options.variant);
  return parse_name(places, "-device", text, options.device);
}

bool takes_value(std::string_view name) {
  for (const Number& number : numbers) {
    if (name == number.name) return true;
  }
  return name == "variant" || name == "device" || name == "plot";
}

}  // namespace

std::string parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    std::string_view name = argv[i];
    if (name.substr(0, 1) != "-") return std::string(name) + ": unexpected argument; see -help";
    name.remove_prefix(name.substr(0, 2) == "--" ? 2 : 1);
    if (name == "csv") {
      options.csv = true;
    } else if (name == "skip_single_gpu") {
      options.single = false;
    } else if (name == "gpus") {
      options.count_gpus = true;
    } else if (name == "help" || name == "h") {
      options.help = true;
    } else if (takes_value(name)) {
      if (i + 1 == argc) return std::string(argv[i]) + ": its value is missing; see -help";
      if (std::string error = parse_valued(name, argv[++i], options); !error.empty()) return error;
    } else {
      return std::string(argv[i]) + ": unknown option; see -help";
    }
  }
  return {};
}

std::string help() {
  return "Usage: jacobi [options]     2D Laplace equation by Jacobi iteration, rows distributed over MPI "
         "ranks\n"
         "  -nx N              columns, 3 to 1073741824 (16384)\n"
         "  -ny N              rows, 3 to 1073741824, at least one per rank and the two outer rows (16384)\n"
         "  -niter N           largest number of iterations, 1 to 1000000000 (1000)\n"
         "  -nccheck N         iterations between two checks of the norm, 1 to 1000000000 (1)\n"
         "  -variant V         cuda_aware, host_staged, overlap, window, stream or device (cuda_aware)\n"
         "  -device D          auto, cuda or host (auto: cuda if there is a GPU)\n"
         "  -skip_single_gpu   skips the run on one device: no speedup, no comparison of the results\n"
         "  -plot FILE.png     a picture of the solution, at most 1024 pixels wide and high\n"
         "  -csv               one line: variant, nx, ny, niter, nccheck, ranks, 1, seconds, single-device "
         "seconds\n"
         "  -gpus              print the number of usable GPUs and exit\n"
         "  -help              this text\n";
}

const char* name(Variant variant) {
  for (const VariantName& known : variants) {
    if (known.value == variant) return known.name;
  }
  return "?";
}

}  // namespace jacobi
