// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/gpu_bind.hpp"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "launch/cpus.hpp"
#include "launch/environment.hpp"
#include "mpiexec/options.hpp"
#include "mpiexec/placement.hpp"

namespace weft::mpiexec {

namespace {

using GpuList = std::vector<int>;

constexpr const char* kGpuBindValues =
    "[verbose,]none, closest, single[:N], per_task:N, map_gpu:0,1,2*4, mask_gpu:0x3,0xc, list:0,1:2,3, "
    "rotate";

/// Parses a number with the digits of `base`; a prefix 0x means base 16.
std::optional<uint64_t> parse_number(std::string_view text, int base) {
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<GpuList> parse_map_entry(std::string_view text) {
  const auto number = parse_number(text, 10);
  if (!number || *number >= kMaxGpus) return std::nullopt;
  return GpuList{static_cast<int>(*number)};
}

std::optional<GpuList> parse_mask_entry(std::string_view text) {
  const auto mask = parse_number(text, 16);
  if (!mask || *mask == 0) return std::nullopt;
  GpuList gpus;
  for (int gpu = 0; gpu < kMaxGpus; ++gpu)
    if ((*mask >> gpu & 1) != 0) gpus.push_back(gpu);
  return gpus;
}

/// Parses "0,1*4": an entry for each rank, or for several in a row.
template <class Parse>
std::optional<std::vector<GpuList>> parse_entries(const std::string& text, Parse parse) {
  std::vector<GpuList> lists;
  std::stringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) {
    const size_t star = word.find('*');
    const auto times =
        star == word.npos ? std::optional<int>(1) : launch::parse_int(word.substr(star + 1), 1, kMaxRanks);
    const auto gpus = parse(std::string_view(word).substr(0, star));
    if (!gpus || !times || lists.size() + static_cast<size_t>(*times) > kMaxRanks) return std::nullopt;
    lists.insert(lists.end(), static_cast<size_t>(*times), *gpus);
  }
  if (lists.empty() || text.ends_with(',')) return std::nullopt;
  return lists;
}

/// Parses PALS' "0,1:2-3": the GPUs of each rank, separated by colons.
std::optional<std::vector<GpuList>> parse_pals_list(const std::string& text) {
  std::vector<GpuList> lists;
  std::stringstream stream(text);
  for (std::string word; std::getline(stream, word, ':');) {
    const auto gpus = launch::parse_cpu_list(word);
    if (!gpus || gpus->empty() || gpus->back() >= kMaxGpus) return std::nullopt;
    lists.push_back(*gpus);
  }
  if (lists.empty() || text.ends_with(':')) return std::nullopt;
  return lists;
}

std::optional<GpuBinding> parse_gpu_bind(const std::string& value) {
  const size_t colon = value.find(':');
  const std::string kind = value.substr(0, colon);
  const std::string rest = colon == value.npos ? "" : value.substr(colon + 1);
  GpuBinding binding;
  binding.text = value;
  if (colon == value.npos) {
    binding.kind = kind == "none"      ? GpuBind::none
                   : kind == "closest" ? GpuBind::closest
                   : kind == "single"  ? GpuBind::single
                   : kind == "rotate"  ? GpuBind::rotate
                                       : GpuBind::unset;
    return binding.kind == GpuBind::unset ? std::nullopt : std::optional(binding);
  }
  if (kind == "single" || kind == "per_task") {
    const auto count = launch::parse_int(rest, 1, kind == "single" ? kMaxRanks : kMaxGpus);
    if (!count) return std::nullopt;
    binding.kind = kind == "single" ? GpuBind::single : GpuBind::per_task;
    binding.count = *count;
    return binding;
  }
  const auto lists = kind == "map_gpu"    ? parse_entries(rest, parse_map_entry)
                     : kind == "mask_gpu" ? parse_entries(rest, parse_mask_entry)
                     : kind == "list"     ? parse_pals_list(rest)
                                          : std::nullopt;
  if (!lists) return std::nullopt;
  binding.kind = GpuBind::list;
  binding.lists = *lists;
  return binding;
}

}  // namespace

Status set_gpu_bind(Options& options, const std::string& name, const std::string& value) {
  std::string type = value;
  for (const char* word : {"verbose,", "v,"})
    if (type.starts_with(word)) {
      type = type.substr(type.find(',') + 1);
      options.report_bindings = true;
      break;
    }
  auto binding = parse_gpu_bind(type);
  if (!binding) return bad_value(name, value, kGpuBindValues);
  options.gpu_bind = std::move(*binding);
  return {};
}

Status set_gpus_per_task(Options& options, const std::string& name, const std::string& value) {
  const auto count = launch::parse_int(value, 1, kMaxGpus);
  if (!count) return bad_value(name, value, "a number of GPUs from 1 to " + std::to_string(kMaxGpus));
  options.gpus_per_task = *count;
  return {};
}

Status check_gpu_variables(const Options& options) {
  const GpuBinding binding = gpu_binding(options);
  if (!binding.assigns()) return {};
  for (const Program& program : options.programs)
    for (const auto& [name, value] : program.variables) {
      if (name != "CUDA_VISIBLE_DEVICES" && (name != "CUDA_DEVICE_ORDER" || value == "PCI_BUS_ID")) continue;
      const char* const inherited = std::getenv(name.c_str());
      if (inherited == nullptr || value != inherited)
        return Error(Errc::arg, "-x " + name + "=" + value + " and --gpu-bind " + binding.text +
                                    " both choose GPUs: set the variable for mpiexec, " + name + "=" + value +
                                    " mpiexec ..., which then assigns the GPUs that it shows");
    }
  return {};
}

GpuBinding gpu_binding(const Options& options) {
  if (options.gpu_bind.kind != GpuBind::unset || options.gpus_per_task == 0) return options.gpu_bind;
  return {GpuBind::per_task, options.gpus_per_task, {}, "per_task:" + std::to_string(options.gpus_per_task)};
}

}  // namespace weft::mpiexec
