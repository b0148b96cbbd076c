// SPDX-License-Identifier: BSD-3-Clause
// Categories (MPI 5.0 section 15.3.9). They never change.
#include <algorithm>

#include "api/impl.hpp"
#include "tool/tool.hpp"

namespace tool = weft::tool;

namespace weft::tool {
namespace {

/// Returns up to `len` members of a category.
int get_members(int category, std::vector<int> Category::*members, int len, int* indices) {
  const auto& table = tables().categories;
  if (const int code = check_index(table, category); code != MPI_SUCCESS) return code;
  if (len < 0 || (indices == nullptr && len != 0)) return MPI_T_ERR_INVALID;
  const auto& all = table[static_cast<size_t>(category)].*members;
  std::copy_n(all.begin(), std::min(all.size(), static_cast<size_t>(len)), indices);
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace weft::tool

namespace weft::api::impl {

int T_category_get_num(int* num_cat) {
  WEFT_TOOL_CALL(Call);
  if (num_cat == nullptr) return MPI_T_ERR_INVALID;
  *num_cat = static_cast<int>(tool::tables().categories.size());
  return MPI_SUCCESS;
}

int T_category_get_info(int cat_index, char* name, int* name_len, char* desc, int* desc_len, int* num_cvars,
                        int* num_pvars, int* num_categories) {
  WEFT_TOOL_CALL(Call);
  const auto& table = tool::tables().categories;
  if (const int code = tool::check_index(table, cat_index); code != MPI_SUCCESS) return code;
  const tool::Category& category = table[static_cast<size_t>(cat_index)];
  tool::copy_string(category.name, name, name_len);
  tool::copy_string(category.help, desc, desc_len);
  tool::assign(num_cvars, static_cast<int>(category.cvars.size()));
  tool::assign(num_pvars, static_cast<int>(category.pvars.size()));
  tool::assign(num_categories, static_cast<int>(category.categories.size()));
  return MPI_SUCCESS;
}

int T_category_get_num_events(int cat_index, int* num_events) {
  WEFT_TOOL_CALL(Call);
  const auto& table = tool::tables().categories;
  if (const int code = tool::check_index(table, cat_index); code != MPI_SUCCESS) return code;
  if (num_events == nullptr) return MPI_T_ERR_INVALID;
  *num_events = static_cast<int>(table[static_cast<size_t>(cat_index)].events.size());
  return MPI_SUCCESS;
}

int T_category_get_index(const char* name, int* cat_index) {
  WEFT_TOOL_CALL(Call);
  if (cat_index == nullptr) return MPI_T_ERR_INVALID;
  const int found = tool::find_name(tool::tables().categories, name);
  if (found < 0) return MPI_T_ERR_INVALID_NAME;
  *cat_index = found;
  return MPI_SUCCESS;
}

int T_category_get_cvars(int cat_index, int len, int* indices) {
  WEFT_TOOL_CALL(Call);
  return tool::get_members(cat_index, &tool::Category::cvars, len, indices);
}

int T_category_get_pvars(int cat_index, int len, int* indices) {
  WEFT_TOOL_CALL(Call);
  return tool::get_members(cat_index, &tool::Category::pvars, len, indices);
}

int T_category_get_events(int cat_index, int len, int* indices) {
  WEFT_TOOL_CALL(Call);
  return tool::get_members(cat_index, &tool::Category::events, len, indices);
}

int T_category_get_categories(int cat_index, int len, int* indices) {
  WEFT_TOOL_CALL(Call);
  return tool::get_members(cat_index, &tool::Category::categories, len, indices);
}

int T_category_changed(int* update_number) {
  WEFT_TOOL_CALL(Call);
  if (update_number == nullptr) return MPI_T_ERR_INVALID;
  *update_number = 1;
  return MPI_SUCCESS;
}

}  // namespace weft::api::impl
