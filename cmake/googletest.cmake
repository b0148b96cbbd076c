# SPDX-License-Identifier: BSD-3-Clause
# GoogleTest: the system's, else the Debian package that set-up unpacked into build/tools, else its source.
# Sets WEFT_GTEST to what a test program links.
find_package(GTest QUIET)
if(NOT TARGET GTest::gtest_main)
  find_package(GTest QUIET HINTS ${WEFT_TOOLS_DIR}/deb/usr)
endif()
if(NOT TARGET GTest::gtest_main)
  message(NOTICE "GoogleTest: fetching its source")
  include(FetchContent)
  set(INSTALL_GTEST OFF CACHE BOOL "" FORCE)
  FetchContent_Declare(googletest GIT_REPOSITORY https://github.com/google/googletest.git GIT_TAG v1.14.0
                       GIT_SHALLOW TRUE)
  FetchContent_MakeAvailable(googletest)
endif()
set(WEFT_GTEST GTest::gtest_main)
