// SPDX-License-Identifier: BSD-3-Clause
// src/launch/pmix/abi.hpp compared with the PMIx headers, if installed.
#include <gtest/gtest.h>

#include "launch/pmix/abi.hpp"
#include "launch/pmix/library.hpp"

#ifdef HAVE_PMIX_HEADERS
#include <pmix.h>

#include <type_traits>

namespace weft::launch::pmix {
namespace {

static_assert(sizeof(Proc) == sizeof(pmix_proc_t) && offsetof(Proc, rank) == offsetof(pmix_proc_t, rank));
static_assert(sizeof(Value) == sizeof(pmix_value_t) && offsetof(Value, data) == offsetof(pmix_value_t, data));
static_assert(sizeof(Value::type) == sizeof(pmix_data_type_t));
static_assert(sizeof(Info) == sizeof(pmix_info_t) && offsetof(Info, flags) == offsetof(pmix_info_t, flags) &&
              offsetof(Info, value) == offsetof(pmix_info_t, value));
static_assert(sizeof(ByteObject) == sizeof(pmix_byte_object_t) &&
              offsetof(ByteObject, size) == offsetof(pmix_byte_object_t, size));
static_assert(sizeof(DataArray) == sizeof(pmix_data_array_t) &&
              offsetof(DataArray, elements) == offsetof(pmix_data_array_t, array));
static_assert(sizeof(App) == sizeof(pmix_app_t) && offsetof(App, environment) == offsetof(pmix_app_t, env) &&
              offsetof(App, processes) == offsetof(pmix_app_t, maxprocs) &&
              offsetof(App, info_count) == offsetof(pmix_app_t, ninfo));
static_assert(sizeof(Published) == sizeof(pmix_pdata_t) &&
              offsetof(Published, value) == offsetof(pmix_pdata_t, value));
static_assert(sizeof(Query) == sizeof(pmix_query_t) &&
              offsetof(Query, qualifiers) == offsetof(pmix_query_t, qualifiers));
static_assert(sizeof(ProcessInfo) == sizeof(pmix_proc_info_t) &&
              offsetof(ProcessInfo, pid) == offsetof(pmix_proc_info_t, pid));
static_assert(kRankWildcard == PMIX_RANK_WILDCARD && kGlobal == PMIX_GLOBAL);
static_assert(kSuccess == PMIX_SUCCESS && kError == PMIX_ERROR && kTimeout == PMIX_ERR_TIMEOUT &&
              kUnreachable == PMIX_ERR_UNREACH && kNotFound == PMIX_ERR_NOT_FOUND &&
              kNotSupported == PMIX_ERR_NOT_SUPPORTED);
static_assert(static_cast<int>(Type::boolean) == PMIX_BOOL && static_cast<int>(Type::string) == PMIX_STRING &&
              static_cast<int>(Type::integer) == PMIX_INT && static_cast<int>(Type::uint16) == PMIX_UINT16 &&
              static_cast<int>(Type::uint32) == PMIX_UINT32 &&
              static_cast<int>(Type::bytes) == PMIX_BYTE_OBJECT &&
              static_cast<int>(Type::process_info) == PMIX_PROC_INFO &&
              static_cast<int>(Type::array) == PMIX_DATA_ARRAY &&
              static_cast<int>(Type::rank) == PMIX_PROC_RANK);

/// Compares the number and sizes of arguments; the types have different names.
template <class R, class... A>
constexpr bool same(R (*)(A...), auto* theirs) {
  return []<class R2, class... B>(R2 (*)(B...)) {
    if constexpr (sizeof...(A) == sizeof...(B)) {
      return ((sizeof(A) == sizeof(B)) && ... && (sizeof(R) == sizeof(R2)));
    } else {
      return false;
    }
  }(theirs);
}

#define SAME(name) \
  static_assert(same(decltype(Functions::name){nullptr}, static_cast<decltype(&::name)>(nullptr)))
SAME(PMIx_Init);
SAME(PMIx_Finalize);
SAME(PMIx_Abort);
SAME(PMIx_Put);
SAME(PMIx_Commit);
SAME(PMIx_Fence);
SAME(PMIx_Get);
SAME(PMIx_Spawn);
SAME(PMIx_Publish);
SAME(PMIx_Lookup);
SAME(PMIx_Unpublish);
SAME(PMIx_Query_info);
SAME(PMIx_Resolve_peers);
SAME(PMIx_Resolve_nodes);
SAME(PMIx_Error_string);
SAME(PMIx_Get_version);

TEST(Keys, MatchTheStandard) {
  EXPECT_STREQ(PMIX_JOB_SIZE, "pmix.job.size");
  EXPECT_STREQ(PMIX_APPNUM, "pmix.appnum");
  EXPECT_STREQ(PMIX_TIMEOUT, "pmix.timeout");
  EXPECT_STREQ(PMIX_UNIV_SIZE, "pmix.univ.size");
  EXPECT_STREQ(PMIX_MAPBY, "pmix.mapby");
  EXPECT_STREQ(PMIX_BINDTO, "pmix.bindto");
  EXPECT_STREQ(PMIX_HOST, "pmix.host");
  EXPECT_STREQ(PMIX_NSPACE, "pmix.nspace");
  EXPECT_STREQ(PMIX_QUERY_PROC_TABLE, "pmix.qry.ptable");
}

}  // namespace
}  // namespace weft::launch::pmix
#endif

namespace weft::launch::pmix {
namespace {

TEST(Library, FoundInTheMapsOfTheLauncher) {
  const std::string maps =
      "7f00-7f01 r--p 00000000 fe:00 1 /usr/lib/libpmix.so.22\n"
      "7f02-7f03 r-xp 00000000 fe:00 2                          /opt/a b/libpmix.so.2.6.2\n"
      "7f04-7f05 rw-p 00000000 00:00 0 [heap]\n";
  EXPECT_EQ(find_mapped(maps, "libpmix.so.2"), "/opt/a b/libpmix.so.2.6.2");
  EXPECT_EQ(find_mapped("7f00-7f01 r--p 0 fe:00 1 /x/libpmix.so.2\n", "libpmix.so.2"), "/x/libpmix.so.2");
  EXPECT_EQ(find_mapped("", "libpmix.so.2"), "");
}

}  // namespace
}  // namespace weft::launch::pmix
