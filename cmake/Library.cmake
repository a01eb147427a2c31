# One call makes all targets of a folder from the suffixes of its files:
#   x.cc x.h → library    x_test.cc → <name>_test    x_bench.cc → <name>_bench    x_fuzz.cc → <name>_x_fuzz
include_guard()
include(Unity)
get_filename_component(GPULENS_ROOT ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)  # of another project, too: python/CMakeLists.txt

# Headers that every test includes are parsed once: half of a test's compile time is gtest and the standard library.
# clang-tidy reads each file alone, so a header that a test forgets is still found.
# A test runs for a second and is compiled in three trees: its own code is not optimized, what it tests is.
set(gpulens_test_options -O0)

# gpulens_precompile(target headers…): precompiles headers as target_precompile_headers does. A precompiled header of clang
# contains its own path, so ccache would never find what another checkout compiled with it. ccache identifies it by
# the file <header>.pch.sum instead (CCACHE_PCH_EXTSUM): the digest of every header that it contains.
function(gpulens_precompile target)
  target_precompile_headers(${target} PRIVATE ${ARGN})
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    return()
  endif()
  string(REGEX REPLACE "(<[a-z_/.]+>);?" "#include \\1\n" source "${ARGN}")
  set(folder ${CMAKE_BINARY_DIR}/CMakeFiles/${target}.dir)
  file(WRITE ${folder}/all.h "${source}")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 -x c++ -M ${folder}/all.h OUTPUT_VARIABLE list
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "/[^ \n\\]+" headers "${list}")
  list(REMOVE_ITEM headers ${folder}/all.h)
  set(digests ${source})
  foreach(header ${headers})
    file(SHA256 ${header} digest)
    string(APPEND digests ${digest})
  endforeach()
  string(SHA256 sum "${digests}")
  file(WRITE ${folder}/cmake_pch.hxx.pch.sum ${sum})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${headers})
endfunction()

if(GPULENS_TESTS AND GPULENS_PRECOMPILE)
  add_library(gpulens_test_headers OBJECT cmake/precompiled_headers.cc)
  target_link_libraries(gpulens_test_headers PRIVATE gpulens_flags GTest::gmock)
  target_compile_options(gpulens_test_headers PRIVATE ${gpulens_test_options})
  set_target_properties(gpulens_test_headers PROPERTIES GPULENS_NOT_OPTIMIZED ON)
  target_compile_definitions(gpulens_test_headers PRIVATE GPULENS_SOURCE_DIR=".")
  gpulens_precompile(gpulens_test_headers
    <gmock/gmock.h> <gtest/gtest.h> <chrono> <functional> <map> <memory> <optional> <string> <string_view> <thread> <vector>)
endif()

# The sources, too: a third of their compile time is the standard library's headers. clang-tidy reads them without.
if(GPULENS_PRECOMPILE)
  add_library(precompiled_headers OBJECT cmake/precompiled_headers.cc)
  target_link_libraries(precompiled_headers PRIVATE gpulens_flags)
  gpulens_precompile(precompiled_headers
    <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <cstdio> <cstring> <functional>
    <map> <memory> <mutex> <optional> <set> <span> <string> <string_view> <unordered_map> <utility> <vector>)
endif()

add_custom_target(unit_tests)    # every test that has the label unit
add_custom_target(e2e_programs)  # what the other tests run
add_custom_target(tests)         # all of them
add_dependencies(tests unit_tests e2e_programs)

# Sources that their folder's library leaves to another one.
set(gpulens_elsewhere)

# add_gpulens_library(name [DIR folder] [TESTS_APART] [DEPS targets…] [PRIVATE_DEPS targets…] [TEST_DEPS targets…])
# `name` is the folder below src/ with "/" as "_"; its target is gpulens_<name>.
# TESTS_APART: its tests are compiled one by one, since names of their anonymous namespaces are equal.
function(add_gpulens_library name)
  cmake_parse_arguments(ARG "TESTS_APART" "DIR" "DEPS;PRIVATE_DEPS;TEST_DEPS" ${ARGN})
  if(NOT ARG_DIR)
    set(ARG_DIR src/${name})
  endif()
  set(ARG_DIR ${GPULENS_ROOT}/${ARG_DIR})
  # Libraries that tests of every folder may use.
  list(APPEND ARG_TEST_DEPS gpulens_base_testing)
  if(TARGET rapidcheck)
    list(APPEND ARG_TEST_DEPS rapidcheck)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${ARG_DIR}/*.cc)
  file(GLOB headers CONFIGURE_DEPENDS ${ARG_DIR}/*.h)
  foreach(kind test bench fuzz)
    set(${kind}s ${sources})
    list(FILTER ${kind}s INCLUDE REGEX "_${kind}\\.cc$")
  endforeach()
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz|main)\\.cc$")
  list(REMOVE_ITEM sources ${gpulens_elsewhere})

  set(target gpulens_${name})
  if(sources)
    add_library(${target} STATIC ${sources})
    set_property(GLOBAL APPEND PROPERTY GPULENS_UNITY_TARGETS ${target})
    target_link_libraries(${target} PUBLIC gpulens_flags ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
    target_include_directories(${target} PUBLIC ${GPULENS_ROOT}/src ${GPULENS_ROOT}/include)
    if(TARGET precompiled_headers)
      target_precompile_headers(${target} REUSE_FROM precompiled_headers)
    endif()
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${ARG_DEPS})
    target_include_directories(${target} INTERFACE ${GPULENS_ROOT}/src ${GPULENS_ROOT}/include)
  endif()
  gpulens_has_threads(threads ${ARG_DIR})
  if(threads OR NOT GPULENS_SANITIZE STREQUAL "thread")
    gpulens_tests(${name} ${target} "${tests}" "${ARG_TEST_DEPS}")
    if(TARGET ${name}_test AND NOT ARG_TESTS_APART)
      set_property(GLOBAL APPEND PROPERTY GPULENS_UNITY_TARGETS ${name}_test)
    endif()
  endif()
  gpulens_benches(${name} ${target} "${benchs}")
  gpulens_fuzzers(${name} ${target} "${fuzzs}")
endfunction()

# Whether code of a folder runs on several threads. Where no source and no test names a thread, or a class that starts
# one, the thread sanitizer has nothing to check.
function(gpulens_has_threads result folder)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.cc ${folder}/*.h)
  set(${result} FALSE PARENT_SCOPE)
  foreach(file ${files})
    file(STRINGS ${file} lines LIMIT_COUNT 1 REGEX
         "std::(thread|atomic|mutex|condition_variable)|IoLoop|Workers|ScriptedServer|CollectorTest|DeviceThread|Background|Outbox")
    if(lines)
      set(${result} TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

function(gpulens_tests name target tests deps)
  if(NOT tests OR NOT GPULENS_TESTS)
    return()
  endif()
  add_executable(${name}_test ${tests})
  target_compile_options(${name}_test PRIVATE ${gpulens_test_options})
  set_target_properties(${name}_test PROPERTIES GPULENS_NOT_OPTIMIZED ON)
  target_link_libraries(${name}_test PRIVATE gpulens_flags ${target} ${deps} GTest::gmock GTest::gtest_main)
  if(GPULENS_PRECOMPILE)
    target_precompile_headers(${name}_test REUSE_FROM gpulens_test_headers)
  endif()
  # Tests run in the root of the tree, so its path is not part of what is compiled (and cached).
  target_compile_definitions(${name}_test PRIVATE GPULENS_SOURCE_DIR=".")
  add_dependencies(unit_tests ${name}_test)
  add_test(NAME ${name} COMMAND ${name}_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 300 SKIP_REGULAR_EXPRESSION "^SKIP ALL")
endfunction()

function(gpulens_benches name target benches)
  if(NOT benches OR NOT GPULENS_BENCHES)
    return()
  endif()
  add_executable(${name}_bench ${benches})
  target_link_libraries(${name}_bench PRIVATE gpulens_flags ${target} benchmark::benchmark_main)
  target_compile_definitions(${name}_bench PRIVATE GPULENS_SOURCE_DIR=".")
endfunction()

# gpulens_job_library(name sources…): a library that jobs load, the shared object lib<name>.so of sources that need neither
# exceptions nor the C++ library: it needs the C library alone, so that it loads in old containers. It stays loaded once it was
# (nodelete), binds all symbols at once, and hides all that is not exported by name. Sources are relative to the root.
# Sanitizers are left out: a job has none. tests/inject/test_job_libraries.py checks what it needs and exports.
function(gpulens_job_library name)
  set(sources)
  foreach(source ${ARGN})
    get_filename_component(source ${source} ABSOLUTE BASE_DIR ${GPULENS_ROOT})
    list(APPEND sources ${source})
  endforeach()
  add_library(${name} MODULE ${sources})
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_include_directories(${name} PRIVATE ${GPULENS_ROOT}/src)
  target_compile_definitions(${name} PRIVATE GPULENS_JOB_LIBRARY GPULENS_VERSION="${PROJECT_VERSION}")
  set(hardened ${gpulens_hardened})
  list(REMOVE_ITEM hardened -D_GLIBCXX_ASSERTIONS)  # calls the C++ library
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wconversion -Wshadow -Werror -O2 -fno-exceptions -fno-rtti
                         -fno-threadsafe-statics -fvisibility=hidden -ffunction-sections -fdata-sections ${hardened})
  # Linked by the C compiler. libdl is where an old glibc has dlopen, though this one has it in libc.
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE C)
  target_link_options(${name} PRIVATE -static-libgcc -Wl,--gc-sections -Wl,--as-needed -Wl,-z,nodelete -Wl,-z,defs
                      ${gpulens_hardened_link})
  target_link_libraries(${name} PRIVATE -Wl,--no-as-needed -l:libdl.so.2 -Wl,--as-needed)
endfunction()

# Every fuzzer is built with -fsanitize=fuzzer where that exists (clang), and has a seed folder
# testdata/<x>_corpus next to it.
function(gpulens_fuzzers name target fuzzers)
  if(NOT fuzzers OR NOT GPULENS_FUZZERS)
    return()
  endif()
  foreach(source ${fuzzers})
    get_filename_component(fuzzer ${source} NAME_WE)
    add_executable(${fuzzer} ${source})
    target_link_libraries(${fuzzer} PRIVATE gpulens_flags ${target})
    target_link_options(${fuzzer} PRIVATE -fsanitize=fuzzer)
  endforeach()
endfunction()

# Passes the costs of tests/costs.tsv to ctest: the longest tests begin first, and each takes as many slots as quarters of
# a core that it keeps busy. ./dev offers four slots a core.
function(gpulens_test_costs)
  file(STRINGS tests/costs.tsv rows REGEX "^[a-z]")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/costs.tsv)
  get_directory_property(tests TESTS)
  foreach(row ${rows})
    string(REGEX MATCH "^([a-z0-9_]+)\t([0-9]+)\t([0-9]+)\\.([0-9][0-9])$" matched "${row}")
    set(name "${CMAKE_MATCH_1}")
    set(seconds "${CMAKE_MATCH_2}")
    math(EXPR slots "((100 * ${CMAKE_MATCH_3} + 1${CMAKE_MATCH_4} - 100) * 4 + 99) / 100")
    if(slots LESS 1)
      set(slots 1)
    elseif(slots GREATER 4)
      set(slots 4)
    endif()
    if(name IN_LIST tests)
      set_tests_properties(${name} PROPERTIES COST ${seconds} PROCESSORS ${slots})
    endif()
  endforeach()
endfunction()

# gpulens_plugins(kind [DEPS targets…] [TEST_DEPS targets…]): one library per line NAME(x) of src/plugins/<kind>.def, from
# src/plugins/<kind>/x; the same list makes the C++ table. All plugins of a kind have the same dependencies. Sets
# <kind>_TARGETS for the caller.
function(gpulens_plugins kind)
  cmake_parse_arguments(ARG "" "" "DEPS;TEST_DEPS" ${ARGN})
  set(list src/plugins/${kind}.def)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${list})
  file(STRINGS ${list} lines REGEX "^GPULENS_PLUGIN\\(")
  set(targets)
  foreach(line ${lines})
    string(REGEX REPLACE "^GPULENS_PLUGIN\\(([a-z0-9_]+)\\).*" "\\1" plugin "${line}")
    add_gpulens_library(${kind}_${plugin} DIR src/plugins/${kind}/${plugin} DEPS gpulens_pipeline ${ARG_DEPS}
                        TEST_DEPS gpulens_net_testing ${ARG_TEST_DEPS})
    list(APPEND targets gpulens_${kind}_${plugin})
  endforeach()
  set(${kind}_TARGETS ${targets} PARENT_SCOPE)
endfunction()
