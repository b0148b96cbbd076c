# SPDX-License-Identifier: BSD-3-Clause
# GoogleTest: from the system, else the Debian package unpacked by set-up in build/tools, else from source.
# Sets WEFT_GTEST to the library target of test programs.
find_package(GTest QUIET)
if(NOT TARGET GTest::gtest_main)
  find_package(GTest QUIET HINTS ${WEFT_TOOLS_DIR}/deb/usr)
endif()
if(NOT TARGET GTest::gtest_main)
  message(NOTICE "GoogleTest: downloading the source")
  include(FetchContent)
  set(INSTALL_GTEST OFF CACHE BOOL "" FORCE)
  FetchContent_Declare(googletest GIT_REPOSITORY https://github.com/google/googletest.git GIT_TAG v1.14.0
                       GIT_SHALLOW TRUE)
  FetchContent_MakeAvailable(googletest)
endif()
# The C++ library follows at once: else the linker takes parts of Weft's archives for functions of std::string that
# GoogleTest calls, since code with little optimisation defines these.
set(WEFT_GTEST GTest::gtest_main GTest::gtest stdc++)
